"""The queue as one would explain it: obvious, slow, in memory. The core must not differ from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness_core import Held, Verdict, lib

PENDING, LEASED, BEGUN, WAITING = lib.FP_PENDING, lib.FP_LEASED, lib.FP_BEGUN, lib.FP_WAITING
UNKNOWN = lib.FP_STATE_UNKNOWN
OUT = (LEASED, BEGUN)
DONE, DONE_UNLISTED, DEAD = lib.FP_DONE_LISTED, lib.FP_DONE_UNLISTED, lib.FP_STATE_DEAD
CANCELLED, LASTING, LIVE = lib.FP_CANCELLED, lib.FP_LIFE_LASTING, lib.FP_LIFE_LIVE


class Put(NamedTuple):
    """What one message of an enqueue says."""

    body: bytes
    due: int
    priority: int = 0
    lane: bytes | None = None
    key: bytes | None = None
    life: int = 0


@dataclass(eq=False)
class Queue:
    number: int
    bulk: bool = False
    halts: bool = False
    resends: bool = False
    strict: bool = False
    max_attempts: int = 2
    lane_width: int = 1
    paused: bool = False


class Claim(NamedTuple):
    """What a claim gave out, with the handle that did: (which of the two, its how-manieth life)."""

    held: Held
    handle: tuple[int, int]


class Saying(NamedTuple):
    claim: Claim
    verb: str
    span: int

    def span_us(self) -> int:
        return self.span or int(self.verb in ("RENEW", "BEGIN"))

    def verdict(self) -> Verdict:
        code = getattr(lib, f"FP_{self.verb}")
        return Verdict(self.claim.held.id, self.claim.held.token, code, self.span_us())


class Claiming(NamedTuple):
    queues: list[Queue]
    limit: int
    lease: int


@dataclass
class Lane:
    out: int = 0
    held: bool = False
    parked_by: int = 0


@dataclass(eq=False)
class Message:
    id: int
    queue: Queue
    said: Put
    state: int = PENDING
    place: int = 0
    placed_at: int = 0
    attempts: int = 0
    generation: int = 0
    token: int = 0  # of the claim, or of who ended it
    holder: object = None  # the handle that gave out the claim
    worker: object = None  # the registered handle that claimed or renewed it last


@dataclass
class Model:
    now: int
    queues: dict[int, Queue] = field(default_factory=dict)
    messages: dict[int, Message] = field(default_factory=dict)
    keys: dict[tuple[int, int, bytes], int] = field(default_factory=dict)
    lanes: dict[tuple[int, bytes], Lane] = field(default_factory=dict)

    # ---- putting in

    def answers(self, queue: Queue, puts: Sequence[Put]) -> list[int | None] | None:
        """
        For each the id that answers it, or -n: what the n-th of this very batch was; None: it is
        new. Nothing at all: another message under one of the keys says something else.
        """
        known = {key: (id_, self.messages[id_].said.body) for key, id_ in self.keys.items()}
        found: list[int | None] = []
        for place, put in enumerate(puts, 1):
            name = (queue.number, put.life, put.key or b"")
            if put.key is None or name not in known:
                found.append(None)
                known[name] = (-place, put.body)
            elif known[name][1] == put.body:
                found.append(known[name][0])
            else:
                return None
        return found

    def enqueue(self, queue: Queue, put: Put, id_: int) -> None:
        message = Message(id_, queue, put, place=put.due, placed_at=put.due)
        self.messages[id_] = message
        if put.key is not None:
            self.keys[queue.number, put.life, put.key] = id_
        self.enter(message)

    # ---- lanes

    def lane_of(self, message: Message) -> Lane | None:
        if message.said.lane is None:
            return None
        return self.lanes.setdefault((message.queue.number, message.said.lane), Lane())

    def enter(self, message: Message) -> None:
        lane = self.lane_of(message)
        if lane is None:
            return
        if lane.held or lane.out >= message.queue.lane_width:
            message.state = WAITING
        else:
            lane.out += 1

    def resume(self, message: Message) -> None:
        """What is unknown has the slot back that its lane halted for."""
        lane, name = self.lane_of(message), message.said.lane
        width = message.queue.lane_width
        halted = lane is not None and lane.held and lane.parked_by == message.id
        if lane is None or name is None or not halted or lane.out >= width:
            self.enter(message)
        else:
            lane.held, lane.parked_by = False, 0
            lane.out += 1
            self.refill(message.queue, name)

    def refill(self, queue: Queue, name: bytes) -> None:
        lane = self.lanes[queue.number, name]
        waiting = [
            message
            for _, message in sorted(self.messages.items())
            if message.state == WAITING and message.queue is queue and message.said.lane == name
        ]
        while waiting and not lane.held and lane.out < queue.lane_width:
            first = waiting.pop(0)
            first.state, first.place = PENDING, first.said.due
            first.placed_at = first.place
            lane.out += 1

    def release_lane(self, queue: Queue, name: bytes) -> bool:
        lane = self.lanes.get((queue.number, name))
        if lane is None or not lane.held:
            return False
        lane.held = False
        self.refill(queue, name)
        return True

    def widen(self, queue: Queue, width: int) -> None:
        raised = width > queue.lane_width
        queue.lane_width = width
        for number, name in list(self.lanes):
            if raised and number == queue.number:
                self.refill(queue, name)

    # ---- the end

    def end(self, message: Message, state: int, token: int) -> None:
        queue, said = message.queue, message.said
        waited = message.state == WAITING
        message.state, message.token = state, token
        if state in (DEAD, UNKNOWN):
            message.generation += 1
        elif queue.bulk and said.life != LASTING:
            del self.messages[message.id]
        elif queue.bulk and state == DONE:
            message.state = DONE_UNLISTED
        if said.life == LIVE and said.key is not None:
            del self.keys[queue.number, LIVE, said.key]
        lane = self.lane_of(message)
        if lane is not None and said.lane is not None and not waited:
            lane.out -= 1
            if state in (DEAD, UNKNOWN) and queue.halts:
                lane.held, lane.parked_by = True, message.id
            self.refill(queue, said.lane)

    def back(self, message: Message, place: int) -> None:
        message.state, message.token = PENDING, 0
        message.holder = message.worker = None
        message.place = message.placed_at = place

    def confirm(self, message: Message) -> None:
        queue, said = message.queue, message.said
        message.state = DONE_UNLISTED if queue.bulk else DONE
        if queue.bulk and said.life != LASTING:
            del self.messages[message.id]
        lane = self.lane_of(message)
        if lane is not None and said.lane is not None and lane.parked_by == message.id:
            self.release_lane(queue, said.lane)

    def answer(self, saying: Saying, handle: object, worker: object) -> int:
        """What the verdict is answered; the model has then done the same."""
        (claim, verb, _), span = saying, saying.span_us()
        held = claim.held
        one = self.messages.get(held.id)
        if one is None:
            return int(lib.FP_LOST)
        if one.state not in (PENDING, WAITING, *OUT):
            return int(lib.FP_ALREADY if one.token == held.token else lib.FP_LOST)
        elsewhere = one.queue.bulk and one.holder != handle
        too_late = one.queue.strict and one.place <= self.now
        if one.state not in OUT or one.token != held.token or elsewhere or too_late:
            return int(lib.FP_LOST)
        if verb == "RETRY" and one.attempts >= one.queue.max_attempts:
            self.end(one, DEAD, held.token)
            return int(lib.FP_DEAD)
        if verb in ("RELEASE", "LATER"):
            one.attempts -= 1
        if verb in ("RENEW", "BEGIN"):
            one.place, one.worker = self.now + span, worker
            one.state = BEGUN if verb == "BEGIN" else one.state
        elif verb == "RELEASE":
            later = self.now + span
            self.back(one, later if span > 0 and later > one.placed_at else one.placed_at)
        elif verb in ("RETRY", "LATER"):
            self.back(one, self.now + span)
        else:
            ends = {"ACK": DONE, "FAIL": DEAD, "CANCEL": CANCELLED, "UNKNOWN": UNKNOWN}
            self.end(one, ends[verb], held.token)
        return int(lib.FP_DONE)

    # ---- claiming

    def died(self, worker: object) -> None:
        """What it held is due now, if its lease has not run out before."""
        for one in self.messages.values():
            if one.state in OUT and one.worker == worker and one.place > self.now:
                one.place = self.now

    def level(self, queue: Queue, below: int) -> int | None:
        """The next priority under `below` that has a row in line."""
        return max(
            (one.said.priority for one in self.in_line(queue) if one.said.priority < below),
            default=None,
        )

    def in_line(self, queue: Queue) -> Iterator[Message]:
        for message in self.messages.values():
            if message.queue is queue and message.state in (PENDING, *OUT):
                yield message

    def due(self, queue: Queue, priority: int, limit: int) -> list[Message]:
        rows = [
            message
            for message in self.in_line(queue)
            if message.said.priority == priority and message.place <= self.now
        ]
        return sorted(rows, key=lambda one: (one.place, one.id))[:limit]

    def claim(self, queues: Sequence[Queue], limit: int, lease: int) -> list[Message]:
        """
        Queue by queue, level by level, a select at a time: those that are used up die after the
        others are taken; one whose holder never answered is handed out alone.
        """
        taken: list[Message] = []
        for queue in queues:
            priority = self.level(queue, 1000)
            while priority is not None and not queue.paused:
                if self.take_level(queue, priority, limit, lease, taken):
                    return taken
                priority = self.level(queue, priority)
        return taken

    def take_level(
        self, queue: Queue, priority: int, limit: int, lease: int, taken: list[Message]
    ) -> bool:
        """True: the claim ends here."""
        while True:
            left, stop, buried = limit - len(taken), False, []
            rows = self.due(queue, priority, left)
            picked: list[Message] = []
            for row in rows:
                doubted = row.state == BEGUN and not queue.resends
                if doubted or row.attempts >= queue.max_attempts:
                    buried.append(row)
                    continue
                alone = row.state in OUT
                if alone and taken + picked:
                    stop = True
                    break
                picked.append(row)
                if alone or len(taken) + len(picked) >= limit:
                    stop = True
                    break
            for row in picked:
                if row.state == PENDING:
                    row.placed_at = row.place
                row.state, row.place = LEASED, self.now + lease
                row.attempts += 1
            taken += picked
            for row in buried:
                doubted = row.state == BEGUN and not queue.resends
                self.end(row, UNKNOWN if doubted else DEAD, 0)
            if stop:
                return True
            if not buried and len(rows) < left:
                return False
