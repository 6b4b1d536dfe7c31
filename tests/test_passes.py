"""
Records and passes: who writes a key first has given it its value, order and time; and who holds no
pass any more writes nothing.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fencepost import InvalidArgument, LeaseLost
from fencepost._binding.calls import Core
from fencepost._binding.codes import FP
from fencepost._binding.flow import Flow, Recorded, RecordPut, inbox_key
from harness_core import START
from harness_core import core as opened
from harness_core import tx as transaction
from harness_flow import keys

pytestmark = pytest.mark.hostile

W = b"workflow"
SECOND = 1_000_000
BUDGET, ALIVE = 300 * SECOND, 60 * SECOND


@pytest.fixture
def flow(core: Core) -> Flow:
    return Flow(core)


def claim(flow: Flow, budget: int = BUDGET, alive: int = ALIVE) -> int:
    token = flow.claim(W, budget, alive)
    assert token
    return token


def put(flow: Flow, token: int, key: bytes, value: bytes | None = b"v", id: bytes = W) -> Recorded:
    return flow.record(None, [RecordPut(id, token, key, FP.RECORD_STEP, value)])[0]


def free_at(flow: Flow, moment: int) -> bool:
    """Whether the workflow can be taken at that moment, but not one microsecond before."""
    flow.core.hand(moment - 1)
    held = flow.claim(W, 1, 1) == 0
    flow.core.hand(moment)
    return held and flow.claim(W, 1, 1) > 0


# ---- records -------------------------------------------------------------------------------------


def test_reading_creates_nothing_and_an_unknown_workflow_has_nothing(flow: Flow) -> None:
    assert [*flow.records(W)] == []
    assert flow.discard(None, W) == 0
    assert flow.core.check(full=True).rows == 0


def test_records_come_back_in_the_order_in_which_they_were_first_written(flow: Flow) -> None:
    """Whatever their keys are; each with the moment of the write that won."""
    token = claim(flow)
    for number, key in enumerate([b"z", b"a", b"m", b"a"]):
        flow.core.hand(START + number)
        put(flow, token, key)
    found = [*flow.records(W)]
    assert keys(found) == [b"z", b"a", b"m"]
    assert [one.written_us for one in found] == [START, START + 1, START + 2]
    assert [one.started_us for one in found] == [-1, -1, -1]


@pytest.mark.parametrize("first", ["record", "supply", "arrive"])
@pytest.mark.parametrize("second", ["record", "supply", "arrive"])
def test_a_key_keeps_value_position_and_time_whoever_writes_it_again(
    flow: Flow, first: str, second: str
) -> None:
    token = claim(flow)

    def write(how: str, value: bytes) -> tuple[bytes | None, bool]:
        if how == "record":
            told = put(flow, token, b"k", value)
            return told.value, told.answer == FP.DONE
        if how == "supply":
            return flow.supply(None, W, b"k", value)
        return flow.arrive(None, W, b"k", value, live=False)

    assert write(first, b"one") == (b"one", True)
    put(flow, token, b"later")
    before = [*flow.records(W)]
    flow.core.hand(START + SECOND)
    assert write(second, b"two") == (b"one", False)
    assert [*flow.records(W)] == before


def test_a_pass_that_says_the_same_again_counts_as_first(flow: Flow) -> None:
    """A tie is first for both: a write whose answer was lost may be made again."""
    token = claim(flow)
    assert put(flow, token, b"k").answer == FP.DONE
    assert put(flow, token, b"k").answer == FP.DONE
    assert put(flow, token, b"k", None) == Recorded(FP.ALREADY, b"v", False)


def test_nothing_is_a_value_and_its_absence_is_not(flow: Flow) -> None:
    token = claim(flow)
    assert flow.find(None, W, token, b"k") == (False, None)
    assert put(flow, token, b"k", None).answer == FP.DONE
    assert flow.find(None, W, token, b"k") == (True, None)
    assert put(flow, token, b"k", None).answer == FP.DONE
    assert put(flow, token, b"k", b"").answer == FP.ALREADY


@pytest.mark.parametrize("key", [b"inbox:1", b"child:x", b"parent:", b"", b"\xff", b"a\0b"])
def test_nobody_writes_a_key_that_the_store_gives(flow: Flow, key: bytes) -> None:
    """Else a client could answer for a message, or make the next one fail."""
    token = claim(flow)
    with pytest.raises(InvalidArgument):
        put(flow, token, key)
    with pytest.raises(InvalidArgument):
        flow.supply(None, W, key, b"v")
    assert [*flow.records(W)] == []


def test_entries_of_the_inbox_sort_as_they_came_and_are_records_like_others(flow: Flow) -> None:
    token = claim(flow)
    first = flow.append(None, W, b"1")
    put(flow, token, b"step")
    second = flow.append(None, W, b"2")
    assert first == inbox_key(int(first[6:]))
    assert len(first) == 26
    assert first < second
    assert [(one.key, one.value, one.kind) for one in flow.records(W)] == [
        (first, b"1", FP.RECORD_INBOX),
        (b"step", b"v", FP.RECORD_STEP),
        (second, b"2", FP.RECORD_INBOX),
    ]
    assert flow.discard(None, W) == 3


def test_entries_that_come_at_once_are_distinct(flow: Flow) -> None:
    keys_of: list[bytes] = []

    def send() -> None:
        keys_of.extend(flow.append(None, W, b"x") for _ in range(25))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(keys_of) == keys(flow.records(W))
    assert len(set(keys_of)) == 100


def test_records_of_many_workflows_are_one_commit_and_each_is_answered(flow: Flow) -> None:
    """One that was fenced does not stop the others."""
    ours, theirs = claim(flow), flow.claim(b"other", BUDGET, ALIVE)
    answers = flow.record(
        None,
        [
            RecordPut(W, ours, b"a", 0, b"1"),
            RecordPut(b"other", ours, b"a", 0, b"2"),
            RecordPut(b"other", theirs, b"a", 0, b"3", START - 5),
            RecordPut(b"nobody", theirs, b"a", 0, b"4"),
        ],
    )
    assert [one.answer for one in answers] == [FP.DONE, FP.LOST, FP.DONE, FP.LOST]
    assert [(one.value, one.started_us) for one in flow.records(b"other")] == [(b"3", START - 5)]
    assert [*flow.records(b"nobody")] == []


def test_a_long_history_comes_in_pages(flow: Flow) -> None:
    """A page ends by its number of records and by its bytes, and the next one goes on there."""
    token = claim(flow)
    flow.record(None, [RecordPut(W, token, b"%03d" % n, 0, b"x" * 10) for n in range(100)])
    assert keys(flow.records(W)) == [b"%03d" % n for n in range(100)]
    page, more = flow.page(W, limit=3)
    assert (keys(page), more) == ([b"000", b"001", b"002"], True)
    page, more = flow.page(W, after_seq=page[-1].seq, limit=2)
    assert keys(page) == [b"003", b"004"]
    *_, last = flow.records(W)
    assert flow.page(W, after_seq=last.seq) == ([], False)


# ---- passes --------------------------------------------------------------------------------------


def test_at_most_one_pass_is_live_and_tokens_only_rise(flow: Flow) -> None:
    first = claim(flow)
    assert flow.claim(W, BUDGET, ALIVE) == 0
    assert flow.release(None, W, first)
    second = claim(flow)
    assert second > first
    assert not flow.release(None, W, first)
    assert flow.claim(W, BUDGET, ALIVE) == 0


def test_of_two_handles_that_claim_at_once_one_has_it(path: Path) -> None:
    """Each with its own connections, as two processes have them."""
    with opened(path) as one, opened(path) as two:
        flows = Flow(one), Flow(two)
        gate = threading.Barrier(2)
        tokens: list[list[int]] = [[], []]

        def take(at: int) -> None:
            for number in range(20):
                gate.wait()
                tokens[at].append(flows[at].claim(b"%d" % number, BUDGET, ALIVE))

        threads = [threading.Thread(target=take, args=[at]) for at in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for pair in zip(*tokens, strict=True):
            assert sorted(map(bool, pair)) == [False, True]


def test_a_pass_lapses_one_alive_after_its_last_sign(flow: Flow) -> None:
    """At that very moment it is free."""
    claim(flow, BUDGET, 10)
    assert free_at(flow, START + 10)


def test_a_pass_lapses_when_its_budget_is_over_however_alive_it_is(flow: Flow) -> None:
    token = claim(flow, 100, 60)
    flow.core.hand(START + 50)
    assert flow.renew(None, W, token, 60)
    assert free_at(flow, START + 100)


def test_a_renewal_is_a_sign_of_life_and_no_budget(flow: Flow) -> None:
    token = claim(flow, 100, 10)
    flow.core.hand(START + 95)
    assert flow.renew(None, W, token, 10)  # lapsed, and nobody has taken it
    flow.core.hand(START + 100)
    assert not flow.renew(None, W, token, 10)
    assert claim(flow) > token


def test_an_extension_never_ends_a_budget_earlier(flow: Flow) -> None:
    token = claim(flow, 1000, 10)
    assert flow.extend(None, W, token, 100, 5000)
    assert free_at(flow, START + 1000)


def test_an_extension_prolongs_the_budget_from_now_on(flow: Flow) -> None:
    token = claim(flow, 100, 60)
    flow.core.hand(START + 90)
    assert flow.extend(None, W, token, 100, 60)
    flow.core.hand(START + 140)
    assert flow.renew(None, W, token, 60)
    assert free_at(flow, START + 190)


def test_a_lapsed_pass_goes_on_until_somebody_takes_it(flow: Flow) -> None:
    token = claim(flow, 100, 10)
    flow.core.hand(START + 500)
    assert put(flow, token, b"late").answer == FP.DONE
    assert flow.extend(None, W, token, 100, 10)
    flow.core.hand(START + 1000)
    other = claim(flow)
    assert put(flow, token, b"too late").answer == FP.LOST
    assert not flow.extend(None, W, token, 100, 10)
    assert not flow.renew(None, W, token, 10)
    assert put(flow, other, b"mine").answer == FP.DONE
    assert keys(flow.records(W)) == [b"late", b"mine"]


def test_a_record_is_a_sign_of_life_worth_what_the_last_one_was(flow: Flow) -> None:
    """Within the budget, which it does not prolong."""
    token = claim(flow, 25, 10)
    flow.core.hand(START + 9)
    assert put(flow, token, b"a").answer == FP.DONE
    flow.core.hand(START + 18)
    assert put(flow, token, b"b").answer == FP.DONE
    assert free_at(flow, START + 25)


def test_a_refused_record_is_no_sign_of_life(flow: Flow) -> None:
    old = claim(flow, BUDGET, 10)
    flow.core.hand(START + 10)
    claim(flow, BUDGET, 10)
    flow.core.hand(START + 19)
    assert put(flow, old, b"a").answer == FP.LOST
    assert free_at(flow, START + 20)


def test_a_write_after_the_release_lands_and_takes_nothing_back(flow: Flow) -> None:
    token = claim(flow)
    flow.release(None, W, token)
    assert put(flow, token, b"late").answer == FP.DONE
    assert claim(flow) > token
    assert put(flow, token, b"later").answer == FP.LOST


def test_a_discard_raises_the_fence(flow: Flow) -> None:
    """What is in flight writes nothing any more; the workflow can be taken at once, higher up."""
    token = claim(flow)
    put(flow, token, b"a")
    flow.append(None, W, b"b")
    assert flow.discard(None, W) == 2
    assert put(flow, token, b"late").answer == FP.LOST
    with pytest.raises(LeaseLost):
        flow.find(None, W, token, b"a")
    assert not flow.renew(None, W, token, ALIVE)
    assert [*flow.records(W)] == []
    assert claim(flow) > token
    assert put(flow, token, b"later").answer == FP.LOST


@pytest.mark.parametrize(("budget", "alive"), [(0, 1), (1, 0), (-1, 1), (1, -1)])
def test_a_pass_without_a_span_is_refused(flow: Flow, budget: int, alive: int) -> None:
    with pytest.raises(InvalidArgument):
        flow.claim(W, budget, alive)


# ---- transact ------------------------------------------------------------------------------------


def test_an_effect_and_its_record_are_one_transaction(flow: Flow) -> None:
    """Fence, is it there, effect, record: what fails in between leaves nothing of it."""
    token = claim(flow)
    with transaction(flow.core) as tx:
        assert flow.find(tx, W, token, b"pay") == (False, None)
        flow.append(tx, b"ledger", b"-10")
        assert flow.record(tx, [RecordPut(W, token, b"pay", FP.RECORD_TRANSACT, b"ok")]) == [
            Recorded(FP.DONE, b"ok", False)
        ]
        tx.end(commit=False)
    assert [*flow.records(W)] == [*flow.records(b"ledger")] == []

    with transaction(flow.core) as tx:
        flow.append(tx, b"ledger", b"-10")
        flow.record(tx, [RecordPut(W, token, b"pay", FP.RECORD_TRANSACT, b"ok")])
        tx.end(commit=True)
    with transaction(flow.core) as tx:
        assert flow.find(tx, W, token, b"pay") == (True, b"ok")
        tx.end(commit=False)
    assert len([*flow.records(b"ledger")]) == 1


def test_a_transaction_finds_out_that_its_pass_was_lost_before_its_effect(flow: Flow) -> None:
    old = claim(flow, 1, 1)
    flow.core.hand(START + 1)
    claim(flow)
    with transaction(flow.core) as tx:
        with pytest.raises(LeaseLost):
            flow.find(tx, W, old, b"pay")
        flow.append(tx, b"ledger", b"other work goes on")
        tx.end(commit=True)
    assert len([*flow.records(b"ledger")]) == 1


def test_a_history_is_read_while_somebody_writes(flow: Flow) -> None:
    """On the reader's connection: as it was before the transaction that is open."""
    token = claim(flow)
    put(flow, token, b"a")
    with transaction(flow.core) as tx:
        flow.record(tx, [RecordPut(W, token, b"b", 0, b"v")])
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.extend(keys(flow.records(W))))
        reader.start()
        reader.join()
        assert found == [b"a"]
        tx.end(commit=True)
    assert keys(flow.records(W)) == [b"a", b"b"]
