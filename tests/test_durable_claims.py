"""Claims as `without-durability` asks for them; the numbers are the contract's rows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fencepost.testing import Clock
from harness_durable import BUDGET, MINUTE, Checkpointer, Durable, Fenced, Pass, claimed

MOMENT = timedelta(microseconds=1)


@pytest.fixture
def records(durable: Durable) -> Checkpointer:
    return durable.checkpointer


async def test_one_pass_at_a_time_and_each_token_is_higher(
    records: Checkpointer, clock: Clock
) -> None:
    """A33"""
    first = await claimed(records)
    assert await records.claim("w", BUDGET, MINUTE) is None
    assert (await claimed(records, "other")).workflow == "other"
    await records.release(first)
    second = await claimed(records)
    clock.advance(MINUTE)
    third = await claimed(records)
    assert first.token < second.token < third.token


@pytest.mark.parametrize(("budget", "alive"), [(BUDGET, MINUTE), (MINUTE, BUDGET)])
async def test_a_claim_lapses_at_the_earlier_of_its_two_ends(
    records: Checkpointer, clock: Clock, budget: timedelta, alive: timedelta
) -> None:
    """A34: to the microsecond, the end included."""
    await claimed(records, budget=budget, alive=alive)
    clock.advance(MINUTE - MOMENT)
    assert await records.claim("w", BUDGET, MINUTE) is None
    clock.advance(MOMENT)
    await claimed(records)


async def test_an_extension_takes_nothing_away(records: Checkpointer, clock: Clock) -> None:
    """A36: and is a sign of life; of a claim that lapsed and that nobody took, too."""
    held = await claimed(records)
    assert await records.extend(held, MINUTE, 10 * MINUTE)
    clock.advance(BUDGET - MOMENT)
    assert await records.claim("w", BUDGET, MINUTE) is None  # alive to the end of the first budget
    clock.advance(MOMENT)
    assert await records.extend(held, BUDGET, MINUTE)  # lapsed
    assert await records.claim("w", BUDGET, MINUTE) is None
    clock.advance(MINUTE)
    await claimed(records)
    assert not await records.extend(held, BUDGET, MINUTE)  # A38: told, not raised


async def test_a_renewal_buys_no_budget(records: Checkpointer, clock: Clock) -> None:
    """A37"""
    held = await claimed(records)
    for _ in range(4):
        clock.advance(MINUTE - MOMENT)
        assert await records.renew(held, MINUTE)
        assert await records.claim("w", BUDGET, MINUTE) is None
    clock.advance(MINUTE)
    clock.advance(4 * MOMENT)
    assert not await records.renew(held, MINUTE)  # its budget is over, though nobody took it
    other = await claimed(records)
    assert not await records.renew(held, MINUTE)
    assert await records.renew(other, MINUTE)


async def test_who_was_superseded_writes_nothing(records: Checkpointer, clock: Clock) -> None:
    """A39, A41: nor does its effect run."""
    held = await claimed(records)
    clock.advance(MINUTE)
    assert (await records.record(held, "late", 1)).first  # nobody took it yet
    clock.advance(MINUTE)
    await claimed(records)
    ran: list[int] = []
    with pytest.raises(Fenced):
        await records.record(held, "later", 1)
    with pytest.raises(Fenced):
        await records.transact(held, "later", lambda cursor: ran.append(1))
    with pytest.raises(Fenced):
        await records.record(Pass("nobody", 1), "later", 1)
    assert ran == []
    assert [*await records.load("w")] == ["late"]


async def test_a_tie_is_a_win_for_both(records: Checkpointer) -> None:
    """A39: who recorded the same has nothing to disagree about."""
    held = await claimed(records)
    assert (await records.record(held, "a", {"x": 1, "y": 2})).first
    assert (await records.record(held, "a", {"y": 2, "x": 1})).first
    assert not (await records.record(held, "a", {"x": 1})).first


async def test_a_record_is_a_sign_of_life(records: Checkpointer, clock: Clock) -> None:
    """A40: as long as the claim said; `transact` is one, too."""
    held = await claimed(records)
    clock.advance(MINUTE - MOMENT)
    await records.record(held, "a", 1)
    clock.advance(MINUTE - MOMENT)
    await records.transact(held, "b", lambda cursor: 2)
    clock.advance(MINUTE - MOMENT)
    assert await records.claim("w", BUDGET, MINUTE) is None
    clock.advance(MOMENT)
    await claimed(records)


async def test_a_write_that_is_refused_renews_nobody(records: Checkpointer, clock: Clock) -> None:
    """A40: a dead holder's claim is not kept alive by the strays of an older one."""
    old = await claimed(records)
    clock.advance(MINUTE)
    await claimed(records)
    clock.advance(MINUTE - MOMENT)
    with pytest.raises(Fenced):
        await records.record(old, "a", 1)
    clock.advance(MOMENT)
    await claimed(records)


async def test_what_comes_after_a_release_lands_and_takes_nothing_back(
    records: Checkpointer, clock: Clock
) -> None:
    """A40, A46: and who is not the holder releases nothing."""
    held = await claimed(records)
    await records.release(held)
    clock.advance(MOMENT)
    assert (await records.record(held, "a", 1)).first
    other = await claimed(records)
    await records.release(held)
    assert await records.claim("w", BUDGET, MINUTE) is None
    await records.release(other)
    await claimed(records)
