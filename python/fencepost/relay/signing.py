"""
Signatures of webhooks, as Standard Webhooks has them: what a sender signs, a receiver verifies.

    webhook-id           the event, the same in every attempt
    webhook-timestamp    of this attempt, seconds since 1970
    webhook-signature    v1,BASE64 of HMAC-SHA256(secret, "ID.TIMESTAMP.BODY"); several with blanks

For receivers this needs nothing but Python, and neither a store nor an App.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from fencepost.errors import Error, InvalidArgument
from fencepost.spans import seconds, span_us
from fencepost.values import Span

__all__ = ["BadSignature", "Secret", "new_secret", "sign", "verify"]

Secret: TypeAlias = str | bytes  # "whsec_" and base64, or the key itself

PREFIX: Final = "whsec_"
KEY_BYTES_MIN: Final = 24  # as the standard has it
VERSION: Final = "v1,"


class BadSignature(Error):
    """Answer 401 or 403, and do nothing else: nobody who has the secret sent this, or not now."""


def new_secret() -> str:
    """One that nobody has yet."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def keys_of(secret: Secret | Sequence[Secret]) -> list[bytes]:
    """`InvalidArgument` for none, and for what is no secret; what it says does not show it."""
    several = [secret] if isinstance(secret, (str, bytes)) else list(secret)
    if not several:
        raise InvalidArgument("there is no secret to sign with")
    return [_key(one) for one in several]


def sign(keys: Sequence[bytes], event_id: str, timestamp: int, body: bytes) -> str:
    """What `webhook-signature` says."""
    signed = f"{event_id}.{timestamp}.".encode("utf-8", "backslashreplace") + body
    return " ".join(
        VERSION + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        for key in keys
    )


def verify(
    secret: Secret | Sequence[Secret],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: Span = 300,
    now: float | None = None,
) -> str:
    """
    The event's id, if `body` was signed with one of the secrets and at most `tolerance` seconds
    from `now` (seconds since 1970; None: this moment); else `BadSignature`.

    `body` is what came over the wire, not what was made of it. An attempt that is repeated within
    the tolerance verifies again: whether the event is known, its id says, to an inbox for one.
    """
    if not isinstance(body, bytes):
        raise InvalidArgument(f"the body is the bytes that came, not {type(body).__name__}")
    keys = keys_of(secret)
    allowed = seconds(span_us(tolerance, "tolerance"))
    said = {name.lower(): value for name, value in headers.items()}
    try:
        event_id, when = said["webhook-id"], said["webhook-timestamp"]
        signatures = said["webhook-signature"].encode("utf-8", "replace").split()
    except KeyError as error:
        raise BadSignature(f"there is no header {error.args[0]}") from None
    if not (when.isascii() and when.isdigit() and len(when) <= 15):
        raise BadSignature("webhook-timestamp is no number of seconds")
    good = [one.encode() for one in sign(keys, event_id, int(when), body).split()]
    if not any(hmac.compare_digest(one, other) for one in good for other in signatures):
        raise BadSignature("no signature is that of this body, id and time by this secret")
    age = (time.time() if now is None else now) - int(when)
    if abs(age) > allowed:
        raise BadSignature(f"it was signed {abs(age):.0f} s {'ago' if age > 0 else 'from now'}")
    return event_id


def _key(secret: Secret) -> bytes:
    if isinstance(secret, str):
        text = secret.removeprefix(PREFIX)
        try:
            key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidArgument("a secret is base64, with or without whsec_, or bytes") from None
    elif isinstance(secret, bytes):
        key = secret
    else:
        raise InvalidArgument(f"a secret is text or bytes, not {type(secret).__name__}")
    if len(key) < KEY_BYTES_MIN:
        raise InvalidArgument(
            f"a secret has at least {KEY_BYTES_MIN} bytes; new_secret() makes one"
        )
    return key
