"""Signatures of webhooks: what is verified, and everything that is not."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import Any

import pytest

from fencepost import InvalidArgument
from fencepost.relay.signing import BadSignature, keys_of, new_secret, sign, verify

# The example of the Standard Webhooks libraries: signed by another implementation.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVENT, AT = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
HEADERS = {
    "Webhook-Id": EVENT,
    "Webhook-Timestamp": str(AT),
    "Webhook-Signature": SIGNATURE,
}


def test_it_is_the_signature_of_standard_webhooks() -> None:
    assert sign(keys_of(SECRET), EVENT, AT, BODY) == SIGNATURE
    assert verify(SECRET, HEADERS, BODY, now=AT) == EVENT


@pytest.mark.parametrize(
    ("changed", "body"),
    [
        ({}, BODY + b" "),
        ({"Webhook-Id": EVENT + "x"}, BODY),
        ({"Webhook-Timestamp": str(AT + 1)}, BODY),
        ({"Webhook-Timestamp": "now"}, BODY),
        ({"Webhook-Timestamp": "-1"}, BODY),
        ({"Webhook-Timestamp": "٣"}, BODY),
        ({"Webhook-Timestamp": "9" * 5000}, BODY),
        ({"Webhook-Signature": ""}, BODY),
        ({"Webhook-Signature": SIGNATURE[3:]}, BODY),
        ({"Webhook-Signature": SIGNATURE.replace("v1", "v2")}, BODY),
        ({"Webhook-Signature": SIGNATURE.lower()}, BODY),
        ({"Webhook-Signature": "v1,\udcff é"}, BODY),
        ({"Webhook-Id": "\udcff"}, BODY),
    ],
)
def test_what_was_changed_is_no_longer_signed(changed: dict[str, str], body: bytes) -> None:
    with pytest.raises(BadSignature):
        verify(SECRET, {**HEADERS, **changed}, body, now=AT)


@pytest.mark.parametrize("name", list(HEADERS))
def test_a_header_that_is_missing_is_named(name: str) -> None:
    headers = {other: value for other, value in HEADERS.items() if other != name}
    with pytest.raises(BadSignature, match=name.lower()):
        verify(SECRET, headers, BODY, now=AT)


@pytest.mark.parametrize(("age", "good"), [(300, True), (-300, True), (301, False), (-301, False)])
def test_it_is_good_for_a_while_to_both_sides(age: int, good: bool) -> None:
    """Clocks differ; a request that somebody kept is refused."""
    if good:
        assert verify(SECRET, HEADERS, BODY, now=AT + age) == EVENT
    else:
        with pytest.raises(BadSignature, match="301 s"):
            verify(SECRET, HEADERS, BODY, now=AT + age)


def test_the_clock_is_asked_where_no_moment_is_given() -> None:
    with pytest.raises(BadSignature, match="ago"):
        verify(SECRET, HEADERS, BODY)
    now = int(time.time())
    fresh = {
        "webhook-id": "1",
        "webhook-timestamp": str(now),
        "webhook-signature": sign(keys_of(SECRET), "1", now, b""),
    }
    assert verify(SECRET, fresh, b"") == "1"


def test_secrets_are_changed_without_a_gap() -> None:
    """The sender signs with both, or the receiver knows both; a third one opens nothing."""
    old, new, other = new_secret(), new_secret(), new_secret()
    both = {**HEADERS, "Webhook-Signature": sign(keys_of([old, new]), EVENT, AT, BODY)}
    assert verify(old, both, BODY, now=AT) == verify(new, both, BODY, now=AT) == EVENT
    one = {**HEADERS, "Webhook-Signature": sign(keys_of(old), EVENT, AT, BODY)}
    assert verify([new, old], one, BODY, now=AT) == EVENT
    with pytest.raises(BadSignature):
        verify([new, other], one, BODY, now=AT)


def test_a_secret_is_bytes_or_base64() -> None:
    assert keys_of(b"k" * 24) == [b"k" * 24]
    assert keys_of(SECRET) == keys_of(SECRET.removeprefix("whsec_"))
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", new_secret())
    wrong: list[Any] = ["", "whsec_", "whsec_!!!", b"short", [], 7, [None]]
    for secret in wrong:
        with pytest.raises((InvalidArgument, TypeError)):
            keys_of(secret)
    with pytest.raises(InvalidArgument, match="bytes that came"):
        verify(SECRET, HEADERS, BODY.decode(), now=AT)  # type: ignore[arg-type]


def test_a_receiver_needs_no_client_library() -> None:
    program = (
        "import sys; sys.modules['httpx'] = None\n"
        "from fencepost.relay.signing import verify\n"
        "import fencepost.relay.webhook\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: webhooks need httpx: pip install 'fencepost[webhook]'"
    )
