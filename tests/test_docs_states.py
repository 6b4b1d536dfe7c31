"""
The pictures and tables of docs/guarantees.md are what the core does: everything that can be done to
a message or a run is done in each of its states, and what comes of it are the arrows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, get_args
from xml.etree import ElementTree as ET

import pytest

import fencepost
from fencepost._binding.calls import Core
from fencepost._binding.codes import FP
from fencepost._binding.pack import pairs
from fencepost._worker.channel import let_go
from harness_core import Held, Verdict, define, lib, put, settle, state_of, take
from harness_flow import Scene, scene, wake
from harness_scenes import say

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
DAY: Final = 86_400_000_000
ENDED: Final = (FP.DONE_UNLISTED, FP.STATE_DEAD, FP.STATE_UNKNOWN, FP.CANCELLED)

Arrow: TypeAlias = tuple[str, str]
Edge: TypeAlias = tuple[str, str, str]  # from, by, to


# ---- what is drawn -------------------------------------------------------------------------------


class Box(NamedTuple):
    name: str  # "": a frame
    x: float
    y: float
    width: float
    height: float

    def touches(self, x: float, y: float) -> bool:
        across = self.x <= x <= self.x + self.width
        down = self.y <= y <= self.y + self.height
        on_side, on_level = x in (self.x, self.x + self.width), y in (self.y, self.y + self.height)
        return (on_side and down) or (on_level and across)

    def holds(self, other: Box) -> bool:
        return self.x < other.x < self.x + self.width and self.y < other.y < self.y + self.height


def drawn(name: str) -> set[Arrow]:
    """Arrows from the border of a state to that of another; from a frame: from each state in it."""
    space = {"": "http://www.w3.org/2000/svg"}
    root = ET.parse(DOCS / name).getroot()  # noqa: S314 - a picture of ours
    boxes: list[Box] = []
    for group in root.findall("g[@class]", space):
        rect, text = group.find("rect", space), group.find("text", space)
        if rect is not None:
            frame = group.get("class") == "frame" or text is None
            label = "" if frame or text is None else str(text.text)
            boxes.append(Box(label, *(float(rect.get(of, "0")) for of in Box._fields[1:])))
    arrows: set[Arrow] = set()
    for path in root.findall("g[@class='arrow']/path", space):
        numbers = [float(number) for number in re.findall(r"\d+", path.get("d", ""))]
        (start,) = [box for box in boxes if box.touches(*numbers[:2])]
        (end,) = [box for box in boxes if box.touches(*numbers[-2:])]
        froms = [start] if start.name else [box for box in boxes if box.name and start.holds(box)]
        assert froms
        assert end.name
        arrows |= {(one.name, end.name) for one in froms}
    return arrows


def told(heading: str) -> set[Edge]:
    """The rows of the table below a heading; what is done stands between backquotes."""
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    section = text[text.index(heading) :].split("\n#")[0]
    rows = re.findall(r"^\| ([\w, ]+) \| (.*`.*) \| (\w+) \|$", section, re.MULTILINE)
    return {
        (one, by, other)
        for ones, how, other in rows
        for one in ones.split(", ")
        for by in re.findall(r"`(\w+)`", how)
    }


def pairs_of(edges: set[Edge]) -> set[Arrow]:
    return {(one, other) for one, _, other in edges}


# ---- messages ------------------------------------------------------------------------------------

STATES: Final = {
    None: "gone",
    FP.PENDING: "pending",
    FP.WAITING: "pending",  # behind the head of its lane
    FP.LEASED: "leased",
    FP.BEGUN: "leased",  # and its send has begun
    FP.DONE_LISTED: "done",
    FP.STATE_DEAD: "dead",
    FP.STATE_UNKNOWN: "unknown",
    FP.CANCELLED: "cancelled",
}


class At(NamedTuple):
    """A message, and its claim if it was claimed."""

    core: Core
    queue: int
    id: int
    held: Held | None

    def say(self, verb: int) -> At:
        if self.held is not None:
            settle(self.core, say(self.held, verb, -1 if verb in (FP.RENEW, FP.BEGIN) else 0))
        return self


def made(core: Core, queue: int) -> At:
    (id_,) = put(core, queue, b"a")
    return At(core, queue, int(id_), None)


def waiting(core: Core, queue: int) -> At:
    put(core, queue, b"head", lanes=[b"lane"])
    (id_,) = put(core, queue, b"a", lanes=[b"lane"])
    take(core, queue)
    return At(core, queue, int(id_), None)


def leased(core: Core, queue: int) -> At:
    at = made(core, queue)
    return at._replace(held=take(core, queue)[0])


def last_attempt(core: Core, queue: int) -> At:
    at = leased(core, queue).say(FP.RETRY)
    return at._replace(held=take(core, queue)[0])


def old(core: Core, queue: int) -> At:
    """It may be tried again no more."""
    at = leased(core, queue)
    assert at.held is not None
    settle(core, Verdict(at.id, at.held.token, FP.RENEW, 9 * DAY))
    core.hand(core.now() + 8 * DAY)
    return at


def after(verb: int) -> Callable[[Core, int], At]:
    return lambda core, queue: leased(core, queue).say(verb)


SITUATIONS: Final = {
    "pending": made,
    "waiting": waiting,
    "leased": leased,
    "leased for the last time": last_attempt,
    "leased for long": old,
    "begun": after(FP.BEGIN),
    "done": after(FP.ACK),
    "dead": after(FP.FAIL),
    "unknown": lambda core, queue: after(FP.BEGIN)(core, queue).say(FP.UNKNOWN),
    "cancelled": after(FP.CANCEL),
}


def claim(at: At) -> None:
    """Whoever asks next, when every lease has run out."""
    if at.held is not None:
        at.core.hand(max(at.held.lease_end, at.core.now()) + 10 * DAY)
    take(at.core, at.queue, 5)


def keep(at: At | RunAt) -> None:
    """What a worker lets go, long after all has ended."""
    core = at.core if isinstance(at, At) else at.at.core
    core.hand(core.now() + 8 * DAY)
    while let_go(core):
        pass


def purge(at: At) -> None:
    for state in ENDED:
        at.core.purge(at.queue, state, 2**52, 10, apply=True)


DEEDS: Final[dict[str, Callable[[At], object]]] = {
    "claim": claim,
    "ack": lambda at: at.say(FP.ACK),
    "retry": lambda at: at.say(FP.RETRY),
    "release": lambda at: at.say(FP.RELEASE),
    "RetryLater": lambda at: at.say(FP.LATER),
    "fail": lambda at: at.say(FP.FAIL),
    "renew": lambda at: at.say(FP.RENEW),
    "DeliveryUnknown": lambda at: at.say(FP.UNKNOWN),
    "cancel": lambda at: at.core.cancel(None, [at.id]),
    "replay": lambda at: at.core.replay(pairs([(at.id, -1)]), 0, 0, apply=True),
    "confirm": lambda at: at.core.confirm(pairs([(at.id, -1)]), b""),
    "keep": keep,
    "purge": purge,
}


def message_edges(core: Core) -> Iterator[Edge]:
    yield "new", "enqueue", STATES[state_of(core, made(core, define(core, "new")).id)]
    for situation, deed in product(SITUATIONS, DEEDS):
        name = f"{situation} {deed}"
        queue = define(core, name, lib.FP_PROFILE_OUTBOX, max_attempts=2)
        at = SITUATIONS[situation](core, queue)
        before = state_of(core, at.id)
        DEEDS[deed](at)
        then = state_of(core, at.id)
        again = at.held is not None and deed in ("claim", "renew")
        if before != then or (again and STATES[then] == "leased"):
            yield STATES[before], deed, STATES[then]


def test_what_becomes_of_a_message_is_as_it_is_drawn(core: Core) -> None:
    edges = set(message_edges(core))
    assert told("### The states of a message") == edges
    assert drawn("messages.svg") == pairs_of(edges)


# ---- runs ----------------------------------------------------------------------------------------


class RunAt(NamedTuple):
    at: Scene
    id: bytes
    held: Held  # of the last pass

    @property
    def state(self) -> str:
        return self.at.state(self.id) or "gone"

    def end(self, verb: int) -> RunAt:
        moment = self.at.core.now() + DAY if verb in (FP.END_SLEEP, FP.END_WAIT) else 0
        self.at.end(self.held, verb, at_us=moment, kind=b"error", text=b"")
        return self

    def taken(self) -> RunAt:
        """The next pass, if there is one."""
        self.at.core.hand(self.at.core.now() + 2 * DAY)
        found = [one for one in self.at.take(100) if one.key == self.id]
        return self._replace(held=found[0]) if found else self


def woken(run: RunAt) -> None:
    if run.state in ("sleeping", "waiting"):
        wake(run.at, run.id, b"signal:go")
        run.taken()


def replayed(run: RunAt) -> None:
    """It is what it was until its pass is taken."""
    if run.at.core.replay(pairs([(run.held.id, -1)]), 0, 0, apply=True) == [FP.DONE]:
        run.taken()


RUN_STATES: Final = {
    "running": 0,
    "sleeping": FP.END_SLEEP,
    "waiting": FP.END_WAIT,
    "failed": FP.END_FAIL,
    "parked": FP.END_PARK,
    "done": FP.END_DONE,
    "cancelled": -1,
}

RUN_DEEDS: Final[dict[str, Callable[[RunAt], object]]] = {
    "sleep": lambda run: run.end(FP.END_SLEEP),
    "wait": lambda run: run.end(FP.END_WAIT),
    "signal": woken,
    "timeout": lambda run: run.state in ("sleeping", "waiting") and run.taken(),
    "return": lambda run: run.end(FP.END_DONE),
    "raise": lambda run: run.end(FP.END_RETRY),
    "PermanentError": lambda run: run.end(FP.END_FAIL),
    "changed_code": lambda run: run.end(FP.END_PARK),
    "resume": lambda run: run.at.flow.resume(None, run.id),
    "cancel": lambda run: run.at.flow.cancel(None, run.id),
    "delete": lambda run: run.at.flow.delete(None, run.id),
    "keep": keep,
    "replay": replayed,
    "purge": lambda run: [
        run.at.flow.purge(FP.RUN_STATES.index(state), 2**52, 100, apply=True)
        for state in ("failed", "parked", "done", "cancelled")
    ],
}


def run_edges(core: Core) -> Iterator[Edge]:
    at = scene(core)
    at.start(b"new")
    yield "new", "start", at.state(b"new") or "gone"
    at.flow.delete(None, b"new")
    for state, deed, last in product(RUN_STATES, RUN_DEEDS, (False, True)):
        id_ = f"{state} {deed} {last}".encode()
        at.start(id_, max_attempts=1 if last else 2)
        run = RunAt(at, id_, at.take(100)[0])
        if state == "cancelled":
            at.flow.cancel(None, id_)
        elif state != "running":
            run.end(RUN_STATES[state])
        assert run.state == state
        RUN_DEEDS[deed](run)
        if run.state != state or (deed == "raise" and state == "running"):
            yield state, deed, run.state
        at.flow.delete(None, id_)


@pytest.mark.hostile
def test_what_becomes_of_a_run_is_as_it_is_drawn(core: Core) -> None:
    edges = set(run_edges(core))
    assert told("### The states of a run") == edges
    assert drawn("runs.svg") == pairs_of(edges)


def test_each_state_has_its_box() -> None:
    messages, runs = drawn("messages.svg"), drawn("runs.svg")
    ends = {"new", "gone"}
    assert {state for arrow in messages for state in arrow} == {*get_args(fencepost.State), *ends}
    assert {state for arrow in runs for state in arrow} == {*FP.RUN_STATES, *ends}
