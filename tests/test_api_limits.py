"""
The limits of the API, each at its edge: the last that is taken, the first that is refused.

A refusal is an InvalidArgument that names the argument, and leaves the file as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fencepost
from fencepost import Backoff, InvalidArgument, Store
from fencepost.spans import SPAN_MAX, moment, moment_us, span_us

NAME = 255
KEY = 1024
CENTURY = 3_155_760_000


@pytest.fixture
def refused(
    store: Store, path: Path, dump: Callable[[Path], str]
) -> Callable[[Callable[[], object], str], None]:
    """Calls, expects the words, and compares the whole file."""

    def check(call: Callable[[], object], words: str) -> None:
        before = dump(path)
        with pytest.raises(InvalidArgument, match=words):
            call()
        assert dump(path) == before

    return check


Refused = Callable[[Callable[[], object], str], None]

# ---- spans and moments ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("span", "us"),
    [
        (0, 0),
        (7, 7_000_000),
        (0.1, 100_000),
        (2.5e-6, 3),
        (1e-7, 0),
        (timedelta(days=1, microseconds=1), 86_400_000_001),
        (CENTURY, SPAN_MAX),
        (timedelta(days=36525), SPAN_MAX),
    ],
)
def test_spans_are_exact(span: fencepost.Span, us: int) -> None:
    assert span_us(span, "delay") == us


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (-1, "delay is negative"),
        (-1e-9, "delay is negative"),
        (timedelta(microseconds=-1), "delay is negative"),
        (float("nan"), "delay is nan"),
        (float("inf"), "delay is inf"),
        (CENTURY + 1, "longer than a hundred years"),
        (1e300, "longer than a hundred years"),
        (10**30, "longer than a hundred years"),
        (timedelta.max, "longer than a hundred years"),
        (True, "not bool"),
        ("5", "not str"),
        (None, "not NoneType"),
    ],
)
def test_what_is_no_span_is_refused(span: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        span_us(span, "delay")


@given(st.integers(0, 2**53 - 1))
def test_moments_come_back(us: int) -> None:
    assert moment_us(moment(us), "due") == us


def test_moments_know_their_zone() -> None:
    """The same moment in two zones is one; the doubled hour of autumn is two."""
    far = timezone(timedelta(hours=14))
    assert moment_us(datetime(1970, 1, 1, 14, tzinfo=far), "due") == 0


@pytest.mark.parametrize(
    ("due", "words"),
    [
        (datetime(2026, 3, 1), "due has no zone: 2026-03-01T00:00:00"),
        (datetime(1969, 12, 31, tzinfo=timezone.utc), "outside 1970..2255"),
        (datetime(2300, 1, 1, tzinfo=timezone.utc), "outside 1970..2255"),
        (1_700_000_000, "due is a datetime with a zone, not int"),
    ],
)
def test_what_is_no_moment_is_refused(due: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        moment_us(due, "due")


# ---- enqueue -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"key": "k" * KEY},
        {"unique": "é" * (KEY // 2)},
        {"lane": "l" * NAME},
        {"priority": -128},
        {"priority": 127},
        {"delay": CENTURY},
        {"headers": {"h": "x" * 65_000}},
        {"due": datetime(1970, 1, 1, tzinfo=timezone.utc)},
        {"due": datetime(2200, 1, 1, tzinfo=timezone.utc)},
        {"headers": {}},
    ],
    ids=str,
)
def test_the_last_that_is_taken(store: Store, options: Any) -> None:
    assert store.queue("q").enqueue(1, **options).created


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "k" * (KEY + 1)}, "key"),
        ({"key": ""}, "key"),
        ({"key": "nul\0in"}, "key contains a NUL"),
        ({"lane": "nul\0in"}, "lane contains a NUL"),
        ({"key": 7}, "key is text, not int"),
        ({"key": "\ud800"}, "key cannot be written as UTF-8"),
        ({"unique": "é" * (KEY // 2 + 1)}, "key"),
        ({"key": "a", "unique": "b"}, "key and unique at once"),
        ({"lane": "l" * (NAME + 1)}, "lane"),
        ({"lane": b"l"}, "lane is text, not bytes"),
        ({"priority": -129}, "priority is a whole number from -128 to 127"),
        ({"priority": 128}, "priority"),
        ({"priority": 1.0}, "priority"),
        ({"delay": CENTURY + 1}, "delay"),
        ({"delay": -1}, "delay is negative"),
        ({"due": datetime(2026, 3, 1)}, "no zone"),
        ({"delay": 1, "due": datetime(2027, 3, 1, tzinfo=timezone.utc)}, "delay and due at once"),
        ({"headers": {"h": "x" * 66_000}}, "header"),
        ({"headers": {"h": 1}}, "headers are text by name"),
        ({"headers": {1: "h"}}, "headers are text by name"),
        ({"headers": [("a", "b", "c")]}, "headers are text by name"),
        ({"headers": {"h": "\ud800"}}, "headers are text by name"),
        ({"after": 5}, "after: no such option"),
        ({"wait": -1}, "wait is negative"),
    ],
    ids=str,
)
def test_the_first_that_is_refused(
    store: Store, refused: Refused, options: Any, words: str
) -> None:
    queue = store.queue("q")
    queue.claim()
    refused(lambda: queue.enqueue(1, **options), words)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"lease": 0}, "lease is 0: it would be over at once"),
        ({"backoff": fencepost.Backoff(jitter=1.5)}, "jitter is a share, from 0 to 1, not 1.5"),
    ],
    ids=str,
)
def test_a_policy_is_refused_in_the_units_it_was_given_in(
    store: Store, policy: Any, words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        store.queue("q", **policy)


def test_a_queue_of_jobs_is_none_of_data(store: Store) -> None:
    """What is wrong is told by what the queue carries."""
    app = fencepost.App(store.path)

    @app.job
    def work() -> None: ...

    work.enqueue()
    with pytest.raises(InvalidArgument, match="the queue 'default' is one of jobs, not of data"):
        store.queue("default").claim()
    app.store.close()


def test_whether_messages_are_found_by_their_ids_changes_only_where_none_is(store: Store) -> None:
    """What is in line would stand in no index, or in one that is not asked."""
    queue = store.queue("q", int)
    queue.enqueue(1)
    found = store.queue("q", int, addressed=True)
    with pytest.raises(InvalidArgument, match="cannot change while 1 messages are in line"):
        found.enqueue(2)
    (claim,) = queue.claim()
    with pytest.raises(InvalidArgument, match="cannot change while 1 messages are in line"):
        found.enqueue(2)
    claim.ack()
    found.enqueue(2)
    assert found.size() == 1


def test_a_payload_that_cannot_be_encoded_changes_nothing(store: Store, refused: Refused) -> None:
    queue = store.queue("q")
    queue.claim()
    refused(lambda: queue.enqueue(float("nan")), "nan has no form in JSON")
    refused(lambda: queue.enqueue_many([1, object(), 3]), "object")
    refused(lambda: queue.enqueue_many([1], key=lambda n: n), "key is text")


def test_a_batch_has_its_limit(store: Store, refused: Refused) -> None:
    queue = store.queue("q")
    assert len(queue.enqueue_many(range(100_000))) == 100_000
    refused(lambda: queue.enqueue_many(range(100_001)), "100000")


# ---- claim and settle ----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1, 10_001, True, 1.0, "1"])
def test_a_claim_has_its_limit(store: Store, refused: Refused, limit: Any) -> None:
    queue = store.queue("q")
    queue.claim(10_000)
    refused(lambda: queue.claim(limit), "limit is a whole number from 1 to 10000")


@pytest.mark.parametrize("lease", [0, -1, float("nan"), CENTURY + 1])
def test_a_lease_is_a_span_that_lasts(store: Store, refused: Refused, lease: Any) -> None:
    queue = store.queue("q")
    queue.enqueue(1)
    refused(lambda: queue.claim(lease=lease), "lease")
    (claim,) = queue.claim(lease=timedelta(microseconds=1))
    refused(lambda: claim.renew(lease), "lease")
    claim.renew(CENTURY)


def test_settling_has_its_limits(store: Store, refused: Refused) -> None:
    queue = store.queue("q")
    queue.enqueue(1)
    (claim,) = queue.claim()
    refused(lambda: claim.retry(-1), "delay is negative")
    refused(lambda: claim.release(float("inf")), "delay is inf")
    refused(lambda: claim.fail(7), "error is an exception or text")  # type: ignore[arg-type]
    refused(lambda: claim.ack(object()), "object")
    claim.fail("x" * 10_000)
    (dead,) = store.messages("dead")
    assert dead.failure is not None
    assert dead.failure.text == "x" * 1000


# ---- policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"lease": 0}, "lease"),
        ({"lease": -1}, "lease is negative"),
        ({"max_attempts": -1}, "max_attempts"),
        ({"max_attempts": 1_000_001}, "max_attempts|attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"max_attempts": 2.0}, "max_attempts"),
        ({"max_age": CENTURY + 1}, "max_age"),
        ({"keep": "week"}, "keep"),
        ({"backoff": 5}, "backoff is a Backoff"),
        ({"backoff": Backoff(base=-1)}, "backoff.base is negative"),
        ({"backoff": Backoff(factor=float("nan"))}, "backoff.factor"),
        ({"backoff": Backoff(jitter=1.5)}, "jitter"),
        ({"addressed": 1}, "addressed is True or False"),
        ({"on_dead": "stop"}, "on_dead is 'go on' or 'halt'"),
        ({"on_unknown": "x"}, "on_unknown"),
        ({"max_size": -1}, "max_size"),
        ({"lane_width": 0}, "lane_width"),
        ({"concurrency": -1}, "concurrency is a whole number"),
        ({"concurrency": 1.5}, "concurrency is a whole number"),
        ({"rate": -1}, "rate is negative"),
        ({"rate": 0.0004}, "rate is from 0.001"),
        ({"rate": 2_000_000}, "rate is from 0.001"),
        ({"retries": 5}, "retries is not a policy of a queue"),
    ],
    ids=str,
)
def test_policies_have_their_limits(
    store: Store, refused: Refused, policy: Any, words: str
) -> None:
    refused(lambda: store.queue("q", **policy).enqueue(1), words)


def test_names_have_their_limits(store: Store, refused: Refused) -> None:
    store.queue("q" * NAME).enqueue(1)
    names: list[Any] = ["", "q" * (NAME + 1), "é" * NAME, 7, b"q", "\ud800"]
    for name in names:
        refused(lambda name=name: store.queue(name).enqueue(1), "name")  # type: ignore[misc]


@pytest.mark.parametrize("limit", [0, 201, -1, True])
def test_a_page_has_its_limit(store: Store, refused: Refused, limit: Any) -> None:
    store.messages("pending", limit=200)
    words = "limit is a whole number from 1 to 200"
    refused(lambda: store.messages("pending", limit=limit), words)


def test_operators_arguments_have_their_limits(store: Store, refused: Refused) -> None:
    now = datetime(2026, 3, 1, tzinfo=timezone.utc)
    ready: Any = "ready"
    refused(lambda: store.messages(ready), "state is one of pending, leased")
    refused(lambda: store.messages("dead", since=datetime(2026, 3, 1)), "since has no zone")
    refused(lambda: store.purge("done", datetime(2026, 3, 1)), "before has no zone")
    refused(lambda: store.purge("done", now, limit=0), "limit|rows")
    refused(lambda: store.purge("done", now, limit=10_001), "limit|rows")
    refused(lambda: store.purge("done", now, queue="none"), "there is no queue 'none'")
    refused(lambda: store.replay([], rate=0), "rate")
    refused(lambda: store.replay([], rate=float("nan")), "rate")
    refused(lambda: store.transaction(timeout=-1).__enter__(), "timeout is negative")


def test_a_type_is_checked_when_the_queue_is_declared(store: Store) -> None:
    with pytest.raises(InvalidArgument, match="complex has no form in JSON"):
        store.queue("q", complex)
