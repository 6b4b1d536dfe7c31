"""Runs: a wake-up in a queue, the pass that is taken with it, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost import Conflict, Gone, InvalidArgument
from fencepost._binding.codes import FP
from fencepost._binding.flow import End, RecordPut, Start, signal_key
from fencepost._binding.pack import pairs
from harness_core import START, ack, lib, said, settle, state_of, take
from harness_core import core as opened
from harness_flow import ARGS, LEASE, Scene, begin, keys, start, wake

pytestmark = pytest.mark.hostile

SECOND = 1_000_000


# ---- start ---------------------------------------------------------------------------------------


def test_a_run_is_running_from_its_start_and_can_be_taken(at: Scene) -> None:
    message = at.start()
    row = at.flow.get(b"run")
    assert row is not None
    assert (row.id, row.kind, row.message, row.args) == (b"run", at.kind, message, ARGS)
    assert (row.created_us, row.ended_us, row.result) == (START, -1, None)
    assert at.state() == "running"
    (held,) = at.take()
    assert (held.id, held.kind, held.key, held.body) == (message, at.kind, b"run", b"")


def test_an_equal_run_is_answered_with_the_first_and_another_one_is_a_conflict(at: Scene) -> None:
    """Also when the first one has ended."""
    message = at.start()
    assert start(at) == (message, False)
    at.end(at.take()[0], FP.END_DONE)
    assert start(at) == (message, False)
    for other in ({"args": b"{}"}, {"kind": at.kind + 1}, {"args": None}):
        with pytest.raises(Conflict) as refused:
            start(at, **other)
        assert refused.value.id == message
    assert at.take() == []


def test_a_start_may_be_put_off_and_has_its_priority(at: Scene) -> None:
    at.start(b"later", delay_us=5)
    at.start(b"low")
    at.start(b"high", priority=5, headers=b"{}")
    first, second = at.take(5)
    assert (first.key, first.headers, second.key) == (b"high", b"{}", b"low")
    at.core.hand(START + 5)
    assert [held.key for held in at.take()] == [b"later"]


@pytest.mark.parametrize(
    "said",
    [{"id": b""}, {"id": b"x" * 1025}, {"kind": 0}, {"delay_us": -1}, {"priority": 128}],
    ids=str,
)
def test_a_start_that_says_nonsense_is_refused(at: Scene, said: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        at.flow.start(None, Start(at.queue, at.kind, b"run", ARGS)._replace(**said))
    assert at.flow.runs() == ([], None)


# ---- take ----------------------------------------------------------------------------------------


def test_a_run_is_taken_with_its_pass_by_one_token(at: Scene) -> None:
    """One commit: nobody else can take the workflow, and the wake-up's token writes its records."""
    at.start()
    (held,) = at.take()
    assert at.flow.claim(b"run", 1, 1) == 0
    assert at.record(held, b"step") == FP.DONE


def test_who_takes_a_lapsed_run_over_fences_the_one_before(at: Scene) -> None:
    at.start()
    (old,) = at.take()
    at.core.hand(START + LEASE)
    (new,) = at.take()
    assert (new.attempt, new.lapsed) == (2, 1)
    assert at.record(old, b"step") == FP.LOST
    assert at.end(old, FP.END_DONE) == FP.LOST
    assert at.record(new, b"step") == FP.DONE
    assert at.state() == "running"


def test_to_renew_the_wake_up_is_to_renew_the_pass(at: Scene) -> None:
    """So that one renewal, the keeper's, holds both."""
    at.start()
    (held,) = at.take()
    at.core.hand(START + LEASE - 1)
    assert settle(at.core, said(held, lib.FP_RENEW)) == [FP.DONE]
    at.core.hand(START + 2 * LEASE - 2)
    assert at.flow.claim(b"run", 1, 1) == 0
    at.core.hand(START + 2 * LEASE - 1)
    assert at.flow.claim(b"run", 1, 1) > 0


def test_a_renewal_of_the_wake_up_ends_no_budget_earlier(at: Scene) -> None:
    at.start()
    (held,) = at.take()
    assert at.flow.extend(None, b"run", held.token, 10 * LEASE, LEASE)
    assert settle(at.core, said(held, lib.FP_RENEW)) == [FP.DONE]
    at.core.hand(START + 9 * LEASE)
    assert at.flow.renew(None, b"run", held.token, LEASE)


@pytest.mark.parametrize("verb", [FP.END_DONE, FP.END_WAIT, FP.END_FAIL, FP.END_RETRY])
def test_a_pass_is_free_as_soon_as_it_has_ended(at: Scene, verb: int) -> None:
    """And what it still writes lands, until somebody takes it."""
    at.start()
    (held,) = at.take()
    assert at.end(held, verb, at_us=START + 1, kind=b"error") == FP.DONE
    assert at.record(held, b"late") == FP.DONE
    assert at.flow.claim(b"run", 1, 1) > held.token
    assert at.record(held, b"later") == FP.LOST


def test_a_run_that_kills_its_workers_fails_when_its_attempts_are_used_up(at: Scene) -> None:
    at.start(max_attempts=2)
    for attempt in (1, 2):
        (held,) = at.take()
        assert held.attempt == attempt
        at.core.hand(START + attempt * LEASE)
    assert at.take() == []
    row = at.flow.get(b"run")
    assert row is not None
    assert (at.state(), row.failure_kind) == ("failed", b"worker_lost")
    assert row.ended_us == START + 2 * LEASE
    assert at.counts() == (0, 0, 0, 1)


# ---- how a pass ends -----------------------------------------------------------------------------


def test_a_run_that_is_done_keeps_its_result_and_nothing_stays_in_line(at: Scene) -> None:
    message = at.start()
    (held,) = at.take()
    at.core.hand(START + 1)
    assert at.end(held, FP.END_DONE, result=b"42") == FP.DONE
    row = at.flow.get(b"run")
    assert row is not None
    assert (at.state(), row.result, row.ended_us) == ("done", b"42", START + 1)
    assert state_of(at.core, message) is None
    assert at.end(held, FP.END_DONE, result=b"42") == FP.ALREADY


def test_a_sleeping_run_wakes_at_its_moment_and_counts_attempts_anew(at: Scene) -> None:
    at.start(max_attempts=1)
    (held,) = at.take()
    assert at.end(held, FP.END_SLEEP, at_us=START + 10, waiting=b'["nap"]') == FP.DONE
    assert at.state() == "sleeping"
    assert at.counts() == (1, 0, 0, 0)
    at.core.hand(START + 9)
    assert at.take() == []
    at.core.hand(START + 10)
    (again,) = at.take()
    assert (again.attempt, at.state()) == (1, "running")


def test_a_waiting_run_stands_in_line_and_is_counted_as_waiting(at: Scene) -> None:
    """Far in the future, under its key: what comes moves it, and never adds a second."""
    message = at.start()
    (held,) = at.take()
    assert at.end(held, FP.END_WAIT, waiting=b'["go"]') == FP.DONE
    row = at.flow.get(b"run")
    assert row is not None
    assert (at.state(), row.waiting) == ("waiting", b'["go"]')
    assert at.counts() == (0, 1, 0, 0)
    assert state_of(at.core, message) == lib.FP_WAITING
    assert at.core.size(None, at.queue) == 1
    assert wake(at)
    assert at.counts() == (1, 0, 0, 0)
    assert [held.id for held in at.take(5)] == [message]
    assert (at.state(), at.counts()) == ("running", (0, 0, 1, 0))


def test_a_wait_with_a_time_out_comes_due_by_itself(at: Scene) -> None:
    at.start()
    assert at.end(at.take()[0], FP.END_WAIT, at_us=START + 10) == FP.DONE
    assert (at.state(), at.counts()) == ("waiting", (1, 0, 0, 0))
    at.core.hand(START + 10)
    assert len(at.take()) == 1


def test_a_failed_pass_runs_again_after_its_delay_until_its_attempts_are_used_up(at: Scene) -> None:
    at.start(max_attempts=2)
    (held,) = at.take()
    told = {"kind": b"error", "text": b"boom"}
    assert at.end(held, FP.END_RETRY, at_us=10, **told) == FP.DONE
    row = at.flow.get(b"run")
    assert row is not None
    assert (at.state(), row.failure_text) == ("running", b"boom")
    assert at.take() == []
    at.core.hand(START + 10)
    (held,) = at.take()
    assert held.attempt == 2
    assert at.end(held, FP.END_RETRY, at_us=10, **told) == FP.DEAD
    assert (at.state(), at.counts()) == ("failed", (0, 0, 0, 1))


def test_a_retry_without_a_delay_backs_off_as_its_queue_says(at: Scene) -> None:
    at.start()
    assert at.end(at.take()[0], FP.END_RETRY) == FP.DONE
    at.core.hand(START + 3 * SECOND)
    assert at.take() == []
    at.core.hand(START + 7 * SECOND)  # 5 seconds, and a fifth to either side
    assert len(at.take()) == 1


@pytest.mark.parametrize(("verb", "state"), [(FP.END_FAIL, "failed"), (FP.END_PARK, "parked")])
def test_what_failed_or_is_parked_can_be_resumed(at: Scene, verb: int, state: str) -> None:
    """From where it was: its records are there, its attempts begin anew."""
    at.start(max_attempts=1)
    (held,) = at.take()
    at.record(held, b"step")
    assert at.end(held, verb, kind=b"error", text=b"boom") == FP.DONE
    assert (at.state(), at.counts()) == (state, (0, 0, 0, 1))
    assert at.flow.resume(None, b"run") == FP.DONE
    assert (at.state(), at.counts()) == ("running", (1, 0, 0, 0))
    assert at.flow.resume(None, b"run") == FP.ALREADY
    (again,) = at.take()
    assert (again.id, again.attempt) == (held.id, 1)
    assert keys(at.flow.records(b"run")) == [b"step"]
    assert at.flow.resume(None, b"nobody") == FP.GONE


def test_a_replay_of_its_dead_letter_is_the_runs(at: Scene) -> None:
    message = at.start()
    at.end(at.take()[0], FP.END_FAIL, kind=b"error")
    assert at.core.replay(pairs([(message, -1)]), 0, 0, apply=True) == [FP.DONE]
    assert at.flow.resume(None, b"run") == FP.DONE
    at.take()
    assert at.state() == "running"


def test_a_released_pass_gives_its_attempt_back(at: Scene) -> None:
    at.start()
    (held,) = at.take()
    assert at.end(held, FP.END_RELEASE) == FP.DONE
    (again,) = at.take()
    assert again.attempt == 1
    assert at.record(held, b"late") == FP.LOST


def test_records_and_the_end_of_their_pass_are_one_call(at: Scene) -> None:
    at.start()
    (held,) = at.take()
    told, answers = at.flow.end(
        None,
        [RecordPut(b"run", held.token, b"last", 0, b"v")],
        [End(b"run", held.token, FP.END_DONE, result=b"r")],
    )
    assert ([one.answer for one in told], answers) == ([FP.DONE], [FP.DONE])
    assert (keys(at.flow.records(b"run")), at.state()) == ([b"last"], "done")


def test_a_wake_up_without_a_kind_is_claimed_without_a_pass(at: Scene) -> None:
    """There the pass is taken by itself, and the wake-up acked, moved and re-armed by itself."""
    assert at.flow.arrive(None, b"w", b"k", b"v", queue=at.queue, live=False) == (b"v", True)
    (held,) = at.take()
    assert (held.key, held.kind) == (b"w", 0)
    assert at.flow.claim(b"w", 10, 10) > 0
    at.flow.deliver(None, b"w", b"v", queue=at.queue, live=False)
    assert ack(at.core, held) == [FP.DONE]
    (again,) = at.take()
    assert ack(at.core, again) == [FP.DONE]
    assert take(at.core, at.queue) == []


# ---- what comes while it is out ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "told", "answer"),
    [
        (FP.END_SLEEP, {"at_us": START + 10 * LEASE}, FP.DONE),
        (FP.END_WAIT, {}, FP.DONE),
        (FP.END_RETRY, {"at_us": 10 * LEASE}, FP.DONE),
        (FP.END_FAIL, {"kind": b"error"}, FP.REARMED),
        (FP.END_PARK, {"kind": b"changed"}, FP.REARMED),
    ],
)
def test_what_comes_while_it_is_out_is_delivered_after_it(
    at: Scene, verb: int, told: dict[str, Any], answer: int
) -> None:
    """However the pass ends: it has not seen it."""
    at.start(max_attempts=5)
    (held,) = at.take()
    assert wake(at)
    assert at.end(held, verb, **told) == answer
    assert (at.state(), at.counts()) == ("running", (1, 0, 0, 0))
    (again,) = at.take()
    assert again.id == held.id


def test_what_comes_while_the_last_attempt_is_out_gives_it_another(at: Scene) -> None:
    at.start(max_attempts=1)
    (held,) = at.take()
    wake(at)
    assert at.end(held, FP.END_RETRY, kind=b"error", text=b"boom") == FP.REARMED
    (again,) = at.take()
    assert again.attempt == 1
    assert at.end(again, FP.END_RETRY, kind=b"error", text=b"boom") == FP.DEAD


def test_what_comes_while_its_last_worker_dies_gives_it_another(at: Scene) -> None:
    at.start(max_attempts=1)
    at.take()
    wake(at)
    at.core.hand(START + LEASE)
    (again,) = at.take()
    assert (again.attempt, at.state()) == (1, "running")


@pytest.mark.parametrize("verb", [lib.FP_FAIL, lib.FP_CANCEL, lib.FP_UNKNOWN, lib.FP_ACK])
def test_no_verdict_of_a_holder_takes_a_wake_up_away_that_it_has_not_seen(
    at: Scene, verb: int
) -> None:
    """Also of those without a kind. An operator's cancellation does: it is meant for all of it."""
    for _ in range(2):
        at.flow.arrive(None, b"w", b"k", b"v", queue=at.queue, live=False)
    (held,) = at.take()
    at.flow.arrive(None, b"w", b"l", b"v", queue=at.queue, live=False)
    assert settle(at.core, said(held, verb)) == [FP.DONE]
    (again,) = at.take()
    at.flow.arrive(None, b"w", b"m", b"v", queue=at.queue, live=False)
    assert at.core.cancel(None, [again.id]) == [FP.DONE]
    assert at.take() == []


def test_a_queued_run_keeps_its_place_when_something_more_comes(at: Scene) -> None:
    for name in (b"a", b"b", b"c"):
        at.start(name)
    at.core.hand(START + 5)
    wake(at, b"a")
    assert [held.key for held in at.take(5)] == [b"a", b"b", b"c"]


def test_a_signal_is_for_runs_that_are_there(at: Scene) -> None:
    """First wins; a second one is told; what has ended takes none. Failed ones keep it."""
    with pytest.raises(Gone):
        wake(at)
    at.start()
    assert [wake(at), wake(at)] == [True, False]
    (held,) = at.take()
    at.end(held, FP.END_FAIL, kind=b"error")
    assert wake(at, key=signal_key("other"))
    assert at.state() == "failed"
    assert at.take() == []
    at.flow.resume(None, b"run")
    at.end(at.take()[0], FP.END_DONE)
    with pytest.raises(Gone):
        wake(at, key=signal_key("late"))
    with pytest.raises(Gone):
        at.flow.deliver(None, b"run", b"late")


# ---- check ---------------------------------------------------------------------------------------

DAMAGES = {
    "UPDATE fencepost_run SET state = 5": "Run 'run' has a state that it cannot have.",
    "UPDATE fencepost_run SET state = 9": "Run 'run' has a state that it cannot have.",
    "UPDATE fencepost_run SET id = 'other'": "Run 'other' is live, but its wake-up 1 is not in",
    "UPDATE fencepost_run SET message = 7": "Run 'run' is live, but its wake-up 7 is not in line.",
    "UPDATE fencepost_run SET state = 6, ended_at = 1": "Run 'run' has ended, but its wake-up 1 is",
    "UPDATE fencepost_claim SET token = 900": "behind the number 900",
    "UPDATE fencepost_record SET seq = 800": "behind the number 800",
    "UPDATE fencepost_tally SET waiting = 0": "says 0 waiting, but there are 1.",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_check_finds_what_does_not_fit(
    path: Path, damage: str, foreign: Callable[[str], str]
) -> None:
    with opened(path) as core:
        at, held = begin(core)
        at.record(held, b"step")
        at.end(held, FP.END_WAIT)
        assert core.check(full=False).rows == 0
        foreign(damage)
        assert DAMAGES[damage] in core.check(full=False).blob.decode()
