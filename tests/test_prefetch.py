"""How far ahead a worker reads, by what it has measured."""

from __future__ import annotations

from collections.abc import Callable

from fencepost._worker.prefetch import BUDGET, PATIENCE, Prefetch


def paced(most: int = 250) -> tuple[Prefetch, Callable[[int, float, int], int]]:
    """A prefetch, and what it says after so many ends within a span, while so many still wait."""
    prefetch = Prefetch(most)
    clock = [100.0]

    def after(ended: int, span: float, waiting: int) -> int:
        prefetch.refilled(clock[0])
        clock[0] += span
        prefetch.ended(ended, clock[0])
        return prefetch.judge(waiting, 1, clock[0])

    return prefetch, after


def test_it_begins_with_nothing_and_grows_by_doubling() -> None:
    """As long as all that was handed out ends in time."""
    prefetch, after = paced()
    assert prefetch.judge(0, 0, 0.0) == 0
    assert [after(1, 0.0001, 0), after(2, 0.0001, 0), after(4, 0.0001, 0)] == [1, 3, 7]
    for _ in range(10):
        after(100, 0.0001, 0)
    assert prefetch.ahead == 250


def test_it_never_promises_more_than_fits_into_the_budget() -> None:
    _, after = paced()
    for _ in range(10):
        ahead = after(10, BUDGET, 5)
    assert ahead == 10
    assert after(3, BUDGET, 5) == 3
    assert after(1, 2 * BUDGET, 5) == 0


def test_it_falls_at_once_when_a_handler_proves_long() -> None:
    """Nothing has ended for a while, although something runs; whatever was measured before."""
    prefetch, after = paced()
    for _ in range(10):
        after(100, 0.001, 50)
    now = 1000.0
    prefetch.refilled(now)
    assert prefetch.judge(50, 1, now + PATIENCE / 2) == 250
    assert prefetch.surplus(50, 1, now + 2 * PATIENCE) == 50
    assert prefetch.ahead == 0


def test_a_queue_that_runs_empty_proves_nothing() -> None:
    """Few have ended because few were there."""
    prefetch, after = paced()
    for _ in range(10):
        after(100, 0.001, 50)
    assert after(1, BUDGET, 0) == 250
    assert prefetch.judge(0, 0, 10**6) == 250


def test_handlers_that_grow_slower_are_found_out() -> None:
    """They do end, but those that wait would wait for much longer than was promised."""
    prefetch, after = paced()
    for _ in range(10):
        after(100, 0.001, 50)
    after(2, BUDGET, 100)
    assert prefetch.surplus(9, 1, 0.0) == 7
    assert prefetch.surplus(8, 1, 0.0) == 0


def test_nothing_is_read_ahead_where_that_is_said() -> None:
    _, after = paced(most=0)
    assert after(100, 0.0001, 0) == 0
