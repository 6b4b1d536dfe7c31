"""Webhooks: what goes over the wire, and what each answer means, with a real HTTP server."""

from __future__ import annotations

import email.utils
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import fencepost
from fencepost import App, InvalidArgument, Outbox
from fencepost.relay.signing import verify
from fencepost.testing import Kit
from harness_hooks import HOST, Answer, Raw, Receiver, Reply, free_port, in_turn, receiver
from harness_outbox import Receipt, only
from harness_worker import AT_ONCE, until

pytest.importorskip("httpx")

import httpx

from fencepost.relay.webhook import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def hooks(app: App, *, policy: dict[str, Any] | None = None, **words: Any) -> Outbox[Receipt]:
    """An outbox that is relayed; one attempt follows the other at once."""
    outbox = app.outbox("receipt", Receipt, **{"backoff": AT_ONCE, **(policy or {})})
    outbox.handler(Webhook(**{"secret": SECRET, **words}))
    return outbox


def drained(kit: Kit, outbox: Outbox[Receipt], answer: Answer, *, sends: int = 1) -> Receiver:
    """What had come, once nothing more is due now."""
    with receiver(answer) as server:
        for order in range(sends):
            outbox.send(server.url, Receipt(order))
        kit.drain(limit=50)
    return server


# ---- what is sent --------------------------------------------------------------------------------


def test_it_arrives_signed_and_named(app: App, kit: Kit) -> None:
    """Body, signature, idempotency key, the attributes of a CloudEvent and the sender's headers."""
    outbox = hooks(app)
    with receiver() as server:
        outbox.send(f"{server.url}?a=b", Receipt(7), headers={"Traceparent": "00-ab-cd-01"})
        kit.drain()
    (post,) = server.posts
    event_id = verify(SECRET, post.headers, post.body)
    assert (post.path, post.body) == ("/hook?a=b", b'{"order":7}')
    named = {
        "idempotency-key": event_id,
        "webhook-id": event_id,
        "ce-id": event_id,
        "ce-type": "receipt",
        "ce-specversion": "1.0",
        "content-type": "application/json",
        "traceparent": "00-ab-cd-01",
    }
    assert named.items() <= post.headers.items()
    assert post.headers["ce-source"] == f"urn:uuid:{event_id.rpartition('-')[0]}"
    assert only(kit, "done").attempt == 1


def test_no_header_can_end_its_line_or_take_the_place_of_ours(app: App, kit: Kit) -> None:
    outbox = hooks(app)
    said = {
        "X-Note": "a\r\nEvil: 1 é%",
        "Webhook-Id": "forged",
        "Content-Length": "0",
        "Host": "elsewhere",
        "Transfer-Encoding": "chunked",
        "ce-subject": 'the "1 %"',
    }
    with receiver() as server:
        outbox.send(server.url, Receipt(1), headers=said)
        kit.drain()
    (post,) = server.posts
    assert post.headers["x-note"] == "a%0D%0AEvil: 1 %C3%A9%"
    assert post.headers["ce-subject"] == "the%20%221%20%25%22"
    assert post.headers["host"] == f"{HOST}:{server.server_address[1]}"
    assert "evil" not in post.headers
    verify(SECRET, post.headers, post.body)


@pytest.mark.parametrize(
    ("destination", "headers", "code"),
    [
        ("not a url", {}, "request"),
        ("ftp://example.com/x", {}, "request"),
        ("http://[::1/x", {}, "request"),
        ("http://127.0.0.1:1/x", {"a b": "c"}, "header"),
    ],
)
def test_what_can_never_be_sent_is_a_dead_letter(
    app: App, kit: Kit, destination: str, headers: dict[str, str], code: str
) -> None:
    hooks(app).send(destination, Receipt(1), headers=headers)
    kit.drain()
    failure = only(kit, "dead").failure
    assert failure is not None
    assert failure.code == code


def test_a_payload_over_the_limit_is_a_dead_letter_and_not_sent(app: App, kit: Kit) -> None:
    body = len(b'{"order":7}')
    outbox = hooks(app, max_bytes=body)
    with receiver() as server:
        outbox.send(server.url, Receipt(7))
        outbox.send(server.url, Receipt(77))
        kit.drain()
    assert [post.body for post in server.posts] == [b'{"order":7}']
    failure = only(kit, "dead").failure
    assert failure is not None
    assert failure.code == "too_large"


def test_a_huge_payload_arrives_whole(app: App, kit: Kit) -> None:
    outbox = app.outbox("blobs", str)
    outbox.handler(Webhook(secret=None, max_bytes=1 << 25))
    text = "x" * (1 << 24)
    with receiver() as server:
        outbox.send(server.url, text)
        kit.drain()
    (post,) = server.posts
    assert post.body == f'"{text}"'.encode()
    assert "webhook-signature" not in post.headers


# ---- what an answer means ------------------------------------------------------------------------

PENDING_USED, PENDING_FREE = ("pending", 1), ("pending", 0)


@pytest.mark.parametrize(
    ("reply", "many", "one"),
    [
        (Reply(200, {}, b"thanks"), ("done", 1), ("done", 1)),
        (Reply(204), ("done", 1), ("done", 1)),
        (Reply(307, {"location": "/elsewhere"}), ("dead", 1), ("dead", 1)),
        (Reply(400), ("dead", 1), ("dead", 1)),
        (Reply(404), ("dead", 1), ("dead", 1)),
        (Reply(410), ("dead", 1), ("dead", 1)),
        (Reply(408), PENDING_USED, PENDING_USED),
        (Reply(425), PENDING_USED, PENDING_USED),
        (Reply(429), PENDING_USED, PENDING_FREE),
        (Reply(500), PENDING_USED, PENDING_USED),
        (Reply(502), PENDING_USED, PENDING_USED),
        (Reply(503), PENDING_USED, PENDING_FREE),
        (Reply(503, {"retry-after": "5"}), PENDING_FREE, PENDING_FREE),
        (Reply(429, {"retry-after": "5"}), PENDING_FREE, PENDING_FREE),
        (Reply(500, {"retry-after": "soon"}), PENDING_USED, PENDING_USED),
        (Reply(504), ("unknown", 1), ("unknown", 1)),
    ],
)
def test_what_a_status_means(
    app: App, kit: Kit, reply: Reply, many: tuple[fencepost.State, int], one: tuple[str, int]
) -> None:
    """For one of many receivers, and for the only one. Redirects are not followed."""
    for number, (one_host, ends) in enumerate(((False, many), (True, one))):
        backoff = fencepost.Backoff(60, 1, 60, 0)
        outbox = app.outbox(f"receipt{number}", Receipt, backoff=backoff)
        outbox.handler(Webhook(secret=SECRET, one_host=one_host))
        server = drained(kit, outbox, lambda post: reply)
        assert len(server.posts) == 1
        states: tuple[fencepost.State, ...] = ("pending", "done", "dead", "unknown")
        found = [m for state in states for m in kit.store.messages(state, queue=outbox.topic)]
        assert [(message.state, message.attempt) for message in found] == [ends]


@pytest.mark.parametrize(
    ("asked", "delay"), [("7", 7), ("0", 1), ("999999", 3600), ("1" * 400, 3600)]
)
def test_retry_after_is_honoured_within_bounds(
    app: App, kit: Kit, asked: str, delay: float
) -> None:
    """It uses no attempt, so it is never at once; and never so long that it is a dead letter."""
    outbox = hooks(app, policy={"max_attempts": 1})
    drained(kit, outbox, lambda post: Reply(503, {"retry-after": asked}))
    message = only(kit, "pending")
    assert message.due is not None
    assert message.due - kit.now == timedelta(seconds=delay)
    assert message.attempt == 0


def test_retry_after_may_be_a_date(app: App, kit: Kit) -> None:
    date = email.utils.formatdate(4102444800, usegmt=True)  # in the year 2100
    drained(kit, hooks(app), lambda post: Reply(429, {"retry-after": date}))
    message = only(kit, "pending")
    assert message.due is not None
    assert message.due - kit.now == timedelta(hours=1)


def test_a_refusal_keeps_the_beginning_of_what_was_said(app: App, kit: Kit) -> None:
    drained(kit, hooks(app), lambda post: Reply(422, {}, b"no such order\xff" + b"x" * 100_000))
    failure = only(kit, "dead").failure
    assert failure is not None
    assert (failure.code, failure.text[:28]) == ("422", "answered 422: no such order�")
    assert len(failure.text) == len("answered 422: ") + 200


def test_no_more_of_an_answer_is_read_than_is_kept(app: App, kit: Kit) -> None:
    """A receiver that goes on and on is cut off: it has said 404, and that was all we asked."""
    endless = Raw(b"HTTP/1.1 404 Not Found\r\n\r\n", endless=b"x" * 65536)
    server = drained(kit, hooks(app, timeout=2), in_turn(endless))
    assert only(kit, "dead").attempt == 1
    assert server.endless_bytes < 1 << 25  # what sockets hold, not what two seconds bring


@pytest.mark.parametrize(("one_host", "asked"), [(False, 3), (True, 1)])
def test_who_asks_to_wait_is_asked_no_more_where_there_is_no_other(
    app: App, kit: Kit, one_host: bool, asked: int
) -> None:
    outbox = hooks(app, one_host=one_host)
    server = drained(kit, outbox, lambda post: Reply(429, {"retry-after": "60"}), sends=3)
    assert len(server.posts) == asked


# ---- no answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "silence",
    [
        Raw(),
        Raw(b"\0\1garbage\r\n\r\n"),
        Raw(b"HTTP/1.1 999999 what\r\n\r\n"),
        Raw(b"HTTP/1.1 200 OK\r\ncontent-le"),
        Raw(hangs=True),
        Raw(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000, hangs=True),
    ],
)
@pytest.mark.parametrize("resends", [False, True])
def test_who_began_and_heard_no_answer_does_not_know(
    app: App, kit: Kit, silence: Raw, resends: bool
) -> None:
    """Put aside; or by name sent again, as the same event."""
    policy = {"on_unknown": "retry" if resends else "hold"}
    outbox = hooks(app, policy=policy, timeout=1)
    server = drained(kit, outbox, in_turn(silence))
    message = only(kit, "done" if resends else "unknown")
    assert message.attempt == len(server.posts) == 1 + resends
    assert len(set(server.events())) == 1


def test_an_answer_without_an_end_has_arrived_all_the_same(app: App, kit: Kit) -> None:
    """The status is the answer; what follows it, endless or never coming, changes nothing."""
    endless = Raw(b"HTTP/1.1 200 OK\r\n\r\n" + b"z" * 1_000_000)
    silent = Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n", hangs=True)
    broken = Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
    outbox = hooks(app, timeout=1)
    drained(kit, outbox, in_turn(endless, silent, broken), sends=3)
    assert len(kit.store.messages("done")) == 3


@pytest.fixture
def mute() -> Iterator[int]:
    """Takes connections and says nothing, so that TLS never begins to speak of a request."""
    with socket.create_server((HOST, 0)) as server:
        yield int(server.getsockname()[1])


@pytest.mark.parametrize("one_host", [False, True])
def test_a_time_out_before_the_request_is_no_doubt(
    app: App, kit: Kit, mute: int, one_host: bool
) -> None:
    outbox = hooks(app, policy={"backoff": fencepost.Backoff(60)}, timeout=0.2, one_host=one_host)
    outbox.send(f"https://{HOST}:{mute}/", Receipt(1))
    kit.drain()
    assert only(kit, "pending").attempt == (0 if one_host else 1)


def test_an_outage_of_the_one_host_uses_up_nobodys_attempts(app: App, kit: Kit) -> None:
    """Down and up again: while it is down one message finds out for all, and then all arrive."""
    port = free_port()
    outbox = hooks(app, policy={"max_attempts": 1}, one_host=True, hold=60)
    for order in range(3):
        outbox.send(f"http://{HOST}:{port}/hook", Receipt(order))
    for _ in range(5):
        assert kit.drain() == (0, 1, 0, 0)
        kit.advance(61)
    assert [message.attempt for message in kit.store.messages("pending")] == [0, 0, 0]
    with receiver(port=port) as server:
        kit.drain(until_idle=True)
    assert len(set(server.events())) == len(server.posts) == 3
    assert len(kit.store.messages("done")) == 3


def test_of_many_receivers_a_dead_one_delays_nobody(app: App, kit: Kit) -> None:
    backoff = fencepost.Backoff(60, 1, 60, 0)
    outbox = hooks(app, policy={"max_attempts": 2, "backoff": backoff})
    with receiver() as server:
        outbox.send(f"http://{HOST}:{free_port()}/hook", Receipt(1))
        outbox.send(server.url, Receipt(2))
        kit.drain()
        assert len(server.posts) == 1
        kit.drain(until_idle=True)
    failure = only(kit, "dead").failure
    assert failure is not None
    assert failure.code == "Refused"


# ---- connections ---------------------------------------------------------------------------------


def test_a_worker_keeps_its_connection_and_no_cookies(tmp_path: Any) -> None:
    """A second worker of the same App has one of its own; both are closed with their loops."""
    app = App(tmp_path / "app.db")
    outbox = hooks(app, limits=httpx.Limits(keepalive_expiry=None))
    with receiver(lambda post: Reply(200, {"set-cookie": "a=b"})) as server:
        for order in range(6):
            if order % 3 == 0:
                worker = app.worker().start()
            outbox.send(server.url, Receipt(order))
            until(lambda: len(app.store.messages("done")) == order + 1)  # noqa: B023
            if order % 3 == 2:
                worker.stop()
    connections = [post.connection for post in server.posts]
    assert len(set(connections[:3])) == len(set(connections[3:])) == 1
    assert len(set(connections)) == 2
    assert not any("cookie" in post.headers for post in server.posts)
    app.store.close()


def test_what_is_said_wrongly_is_refused_where_it_is_said() -> None:
    wrong: list[dict[str, Any]] = [
        {"secret": []},
        {"secret": "short"},
        {"secret": None, "timeout": 0},
        {"secret": None, "hold": -1},
        {"secret": None, "max_bytes": 0},
        {"secret": None, "follow_redirects": True},
        {"secret": None, "one_host": 1},
    ]
    for words in wrong:
        with pytest.raises(InvalidArgument):
            Webhook(**words)
