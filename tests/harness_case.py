"""A case: one commit of the core, and what must be there first. Its lists are next door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fencepost._binding.calls import Core
from harness_core import lib

DONE = [lib.FP_DONE]
Context = Any


class Case(NamedTuple):
    """One commit. `operate` asserts its own answer: a success that did nothing is none."""

    name: str
    prepare: Callable[[Core], Context]
    operate: Callable[[Core, Context], None]

    def __str__(self) -> str:
        return self.name


CASES: list[Case] = []


def case(
    prepare: Callable[[Core], Context], into: list[Case] = CASES
) -> Callable[[Callable[[Core, Context], None]], None]:
    """The operation decorated, after `prepare`; named as it is."""

    def add(operate: Callable[[Core, Context], None]) -> None:
        into.append(Case(operate.__name__.replace("_", " "), prepare, operate))

    return add
