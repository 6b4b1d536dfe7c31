"""The door leaves the file as the core would: whole files are compared, table by table."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness_core import stats
from harness_door import Refused
from harness_outside import Outside
from harness_twins import LASTING, LIVE, LIVES, PROFILES, QUEUES, SECOND, History, Twins


@pytest.fixture
def twins(tmp_path: Path, outside: Outside) -> Iterator[Twins]:
    twins = Twins(tmp_path, outside)
    yield twins
    twins.close()


@pytest.mark.parametrize("profile", PROFILES)
def test_what_comes_in_through_the_door_is_what_the_core_would_have_put(
    twins: Twins, profile: str
) -> None:
    """Each life of a key, lane, priority and moment, on a queue of each kind, twice over."""
    queue = twins.define(profile, PROFILES[profile])
    wide = twins.define("wide " + profile, PROFILES[profile], lane_width=2, max_attempts=3)
    lanes = [{}, {"lane": b"x"}, {"lane": b"x"}, {"lane": b"x"}, {"lane": "höher".encode()}]
    lives = [{}, {"key": b"k", "life": LASTING}, {"key": b"k", "life": LIVE}]
    whens: list[dict[str, Any]] = [{}, {"delay": 7}, {"delay": 0.25}]
    rest: list[dict[str, Any]] = [
        {},
        {"priority": -128, "max_attempts": 0},
        {"priority": 127, "max_attempts": 9, "headers": b'{"a":"b"}'},
    ]
    for number, (lane, life, when, more) in enumerate(product(lanes, lives, whens, rest)):
        said = {**lane, **life, **when, **more}
        if "key" in said:
            said["key"] = b"k%d" % (number % 40)
        twins.put(wide if number % 3 else queue, b"body %d" % (number % 7), **said)
    twins.same()


# ---- corners -------------------------------------------------------------------------------------

BULK, KEPT, JOBS, HALTS, UNLISTED, STRICT, WAKEUPS = range(len(QUEUES))


def test_a_halted_lane_takes_in_what_waits(twins: Twins) -> None:
    history = History(twins)
    history.put(HALTS, b"a", {"lane": b"x"})
    history.claim(HALTS, 1, 30)
    history.fail(0, {}, False)
    history.put(HALTS, b"b", {"lane": b"x"})
    assert twins.both(lambda core: stats(core, history.queues[HALTS])).waiting == 1
    twins.same()


@pytest.mark.parametrize("life", LIVES)
def test_a_wake_up_is_re_armed_wherever_it_is(twins: Twins, life: int) -> None:
    """Earlier and later, at its first place and moved, leased, and after its end; also if full."""
    history = History(twins)
    mine: dict[str, Any] = {"key": b"k", "life": life}
    for delay in (100, 30, 60, 10):
        history.put(WAKEUPS, b"w", {**mine, "delay": delay})
        twins.same()
    history.advance(11)
    history.claim(WAKEUPS, 1, 30)
    for delay in (50, 20, 40):
        history.put(WAKEUPS, b"w", {**mine, "delay": delay})
        twins.same()
    history.ack(0, None, False)
    twins.same()
    history.advance(40)
    history.claim(WAKEUPS, 1, 30)
    history.ack(0, None, False)
    history.put(WAKEUPS, b"w", mine)
    twins.same()
    queue = history.queues[WAKEUPS]
    twins.define("wakeups", PROFILES["wakeup"], max_size=1)
    assert twins.put(queue, b"w", **mine) is None
    twins.same()


@pytest.mark.parametrize("verb", ["ack", "fail", "cancel", "retry", "too old", "operator"])
def test_a_wake_up_that_was_re_armed_outlives_its_holders_word(twins: Twins, verb: str) -> None:
    """An operator's cancellation, which names no claim, takes it all."""
    history = History(twins)
    mine: dict[str, Any] = {"key": b"k", "life": LIVE, "max_attempts": 1}
    history.put(WAKEUPS, b"w", mine)
    if verb == "too old":
        twins.both(lambda core: core.queue_define(None, b"wakeups", 4, {"max_age_us": SECOND}))
    history.claim(WAKEUPS, 1, 30)
    history.put(WAKEUPS, b"w", mine)
    told = {"failure_kind": "error", "failure_text": "boom"}
    if verb == "operator":
        history.cancel(0)
    elif verb == "cancel":
        history.holder_cancels(0, False)
    elif verb == "ack":
        history.ack(0, None, False)
    elif verb == "fail":
        history.fail(0, told, False)
    else:
        history.retry(0, 9, {} if verb == "retry" else told, False)
    twins.same()
    left = twins.both(lambda core: stats(core, history.queues[WAKEUPS]))
    assert (left.pending, left.dead) == (0 if verb == "operator" else 1, 0)


def test_a_key_whose_message_is_gone_answers_until_its_window_is_over(twins: Twins) -> None:
    """To the moment: then it is free, and its row goes to the next one."""
    history = History(twins)
    queue = twins.define("short", PROFILES["job"], keep_us=3 * SECOND, key_window_us=20 * SECOND)
    history.queues.append(queue)
    for key in (b"k", b"l"):
        twins.put(queue, b"a", key=key)
    history.claim(len(QUEUES), 2, 30)
    for pick in (0, 1):
        history.ack(pick, None, False)
    history.advance(5)
    assert twins.both(lambda core: core.retain(10))[0] == 2
    assert twins.put(queue, b"a", key=b"k") is None  # nothing is there to be compared with
    twins.same()
    history.advance(14)
    assert twins.put(queue, b"a", key=b"k") is None
    history.advance(1)
    assert twins.put(queue, b"a", key=b"k")
    assert twins.put(queue, b"b", key=b"l")
    twins.same()


def test_headers_are_a_part_of_what_is_equal(twins: Twins) -> None:
    history = History(twins)
    queue = history.queues[JOBS]
    assert twins.put(queue, b"a", key=b"k", headers=b"{}")
    assert twins.put(queue, b"a", key=b"k", headers=b"{}")
    assert twins.put(queue, b"a", key=b"k") is None
    assert twins.put(queue, b"a", key=b"l")
    assert twins.put(queue, b"a", key=b"l", headers=b"{}") is None
    twins.same()


@pytest.mark.parametrize("pick", range(len(QUEUES)))
def test_who_lost_its_message_is_told_so_at_the_door(twins: Twins, pick: int) -> None:
    """By its older token; what the newer one says counts."""
    history = History(twins)
    history.put(pick, b"a", {})
    history.claim(pick, 1, 10)
    history.advance(10)
    history.claim(pick, 1, 10)
    old, new = history.claims
    assert old.id == new.id
    for columns in ({}, {"lease_end": old.lease_end}, {"lease_end": new.lease_end}):
        with pytest.raises(Refused, match="lease lost"):
            twins.door.settle(old.id, old.token, "ack", **columns)
    history.ack(1, None, False)
    twins.same()
    history.ack(0, None, False)
    twins.same()


def test_an_inbox_takes_no_word_at_the_door_from_a_lease_that_has_just_ended(twins: Twins) -> None:
    """A microsecond before its end it does."""
    history = History(twins)
    for verb in ("too late", "in time"):
        history.put(STRICT, b"a", {})
        history.claim(STRICT, 1, 10)
        history.now = history.claims[-1].lease_end - (verb == "in time")
        history.advance(0)
        history.ack(0, None, False)
        twins.same()
        left = twins.both(lambda core: stats(core, history.queues[STRICT]))
        assert (left.leased, left.pending) == ((1, 0) if verb == "too late" else (0, 0))
        history.cancel(-1)
        twins.same()


# ---- histories -----------------------------------------------------------------------------------

which = st.integers(0, 10**6)
said = st.fixed_dictionaries(
    {},
    optional={
        "lane": st.sampled_from([b"x", b"y"]),
        "key": st.sampled_from([b"k", b"l"]),
        "life": st.sampled_from([LASTING, LIVE]),
        "priority": st.sampled_from([1, -1]),
        "delay": st.sampled_from([2, 10, 100]),
        "max_attempts": st.sampled_from([0, 1]),
        "headers": st.just(b"{}"),
    },
)
failures = st.fixed_dictionaries(
    {},
    optional={
        "failure_kind": st.just("odd"),
        "failure_code": st.sampled_from(["", "E1"]),
        "failure_text": st.sampled_from(["", "went wrong"]),
    },
)
delays = st.sampled_from([None, 0, 2, 30])
operations = st.one_of(
    st.tuples(st.just("put"), which, st.sampled_from([b"a", b"b"]), said),
    st.tuples(st.just("claim"), which, st.integers(1, 4), st.sampled_from([3, 30])),
    st.tuples(st.just("ack"), which, st.sampled_from([None, b"fine"]), st.booleans()),
    st.tuples(st.just("retry"), which, delays, failures, st.booleans()),
    st.tuples(st.just("release"), which, delays, st.booleans()),
    st.tuples(st.just("fail"), which, failures, st.booleans()),
    st.tuples(st.just("holder cancels"), which, st.booleans()),
    st.tuples(st.just("renew"), which),
    st.tuples(st.just("own acks"), st.integers(1, 8)),
    st.tuples(st.just("cancel"), which),
    st.tuples(st.just("replay"), which),
    st.tuples(st.just("advance"), st.sampled_from([2, 5, 40])),
)


MODERATE = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(MODERATE, max_examples=1500, derandomize=False)


def told_twice(outside: Outside, story: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        twins = Twins(Path(folder), outside)
        try:
            history = History(twins)
            for operation in story:
                history.tell(*operation)
            twins.same()
        finally:
            twins.close()


@MODERATE
@given(st.lists(operations, min_size=10, max_size=40))
def test_what_goes_out_through_the_door_is_what_the_core_would_have_settled(
    outside: Outside, story: list[Any]
) -> None:
    """The same stories each time, so that a red build is red for everybody."""
    told_twice(outside, story)


@pytest.mark.long
@LONG
@given(st.lists(operations, min_size=10, max_size=80))
def test_the_same_at_length(outside: Outside, story: list[Any]) -> None:
    told_twice(outside, story)
