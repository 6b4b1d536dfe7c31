"""What a worker's loop says to the core: verdicts in, claims out, and small notes in between."""

from __future__ import annotations

import copy
import logging
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fencepost._binding import pack
from fencepost._binding.calls import FP, Core
from fencepost._binding.flow import Flow
from fencepost._binding.pack import Take, Verdict
from fencepost._file import File, named
from fencepost._verdicts import failed
from fencepost._worker import failpoints
from fencepost.claims import Claim, claims_of
from fencepost.errors import Busy, InvalidArgument
from fencepost.policies import Declaration
from fencepost.queues import Queue
from fencepost.spans import SECOND

__all__ = ["Channel", "let_go"]

VERDICTS_MAX: Final = 10_000  # of one commit, far below what the core takes
RETAIN_ROWS: Final = 500  # of one slice
RUNS_KEPT_US: Final = 7 * 86_400 * SECOND
LONG_AGO: Final = 1  # wait until then: the core only looks first, and begins no write for nothing
PATIENCE: Final = 1.0  # seconds: whoever waits longer for the writer does not see time-outs pass

log: Final = logging.getLogger("fencepost.worker")


class Channel:
    """
    Verdicts wait here until the loop's next exchange, and stay here if that one fails.

    Saying a verdict twice is safe: the core answers that it is settled already.
    """

    def __init__(self, file: File, queues: Mapping[int, Queue[Any]]) -> None:
        self._file = file
        self._core = copy.copy(file.core)  # the same handle, but waits for its turn for less long
        self._core.patience = PATIENCE
        self._queues = queues
        self._waiting: list[tuple[str, Verdict]] = []
        self._notes: dict[int, bytes] = {}
        self._warned = False  # of somebody who keeps the log long

    def __bool__(self) -> bool:
        """Whether anything waits to be settled."""
        return bool(self._waiting)

    def add(self, name: str, verdicts: Iterable[Verdict]) -> None:
        """Verdicts on messages for `name`, a job or a queue."""
        self._waiting += [(name, verdict) for verdict in verdicts]

    # ---- settling and claiming -------------------------------------------------------------------

    def exchange(self, take: Take | None) -> list[Claim[Any]]:
        """Settle what waits and claim, in one commit; None: only settle. Raises as the core."""
        handed_in = self._waiting[:VERDICTS_MAX]
        verdicts = [verdict for _, verdict in handed_in]
        try:
            if take is not None:
                settle = _settle(verdicts) if verdicts else None
                if settle is None:
                    take.until_us = take.until_us or LONG_AGO
                answers, claims = self._core.step(settle, take)
            elif verdicts:
                answers, claims = self._core.settle(None, _settle(verdicts)), None
            else:
                return []
        except InvalidArgument:
            if not verdicts:
                raise
            self._settle_singly()
            return []
        self._waiting = self._waiting[len(handed_in) :]
        self._answered(handed_in, answers)
        return [] if claims is None else claims_of(self._file, self._queues, claims)

    def _settle_singly(self) -> None:
        """One of them is refused, a result that is too long for example: only that one may fail."""
        waiting, self._waiting = self._waiting, []
        try:
            while waiting:
                answers = self._settle_alone(*waiting[0])
                self._answered([waiting.pop(0)], answers)
        finally:  # also where the word on the refused one could not be written
            self._waiting = waiting + self._waiting

    def _settle_alone(self, name: str, verdict: Verdict) -> list[int]:
        try:
            return self._core.settle(None, [verdict])
        except InvalidArgument as error:
            log.warning("%s %d: its result was refused: %s", name, verdict.id, error)
            words = failed((verdict.id, verdict.token), "unencodable", None, str(error))
        try:
            return self._core.settle(None, [words])
        except InvalidArgument:  # it is the claim that is refused: nothing can be said
            return [FP.LOST]

    def _answered(self, handed_in: list[tuple[str, Verdict]], answers: list[int]) -> None:
        for (name, verdict), answer in zip(handed_in, answers, strict=True):
            self._notes.pop(verdict.id, None)
            if answer == FP.LOST and verdict.verb == FP.ACK:
                log.warning("%s %d: its lease was lost, its result is dropped", name, verdict.id)
            elif answer == FP.DEAD:
                log.error("%s %d is dead: its attempts or its age are used up", name, verdict.id)
            failpoints.at("committed", name)

    # ---- small notes -----------------------------------------------------------------------------

    def note(self, id: int, progress: bytes) -> None:
        """How far the handler of a message is. The newest wins."""
        self._notes[id] = progress

    def write_notes(self) -> None:
        """All that were noted, in one commit; or none of them if it is not our turn just now."""
        if not self._notes:
            return
        notes, self._notes = self._notes, {}
        try:
            tx = self._core.begin(0)
        except Busy:
            self._notes = notes
            return
        try:
            for id_, value in notes.items():
                self._core.progress(tx, id_, value)
        except BaseException:
            tx.end(commit=False)
            raise
        tx.end(commit=True)

    def hold(self, declaration: Declaration, delay_us: int) -> None:
        """Nobody is handed anything from this queue for so long, or for its max_age."""
        name = declaration.name.encode()
        max_age = self._core.queue_find(None, name)[1]["max_age_us"]
        span = min(delay_us, max_age) if max_age else delay_us
        until = {"held_until_us": self._core.now() + span}
        self._core.queue_define(None, name, declaration.profile, until)

    def retain(self) -> bool:
        """One slice of what the queues' retention lets go; whether there is more."""
        self._watch_the_log()
        return let_go(self._core)

    def _watch_the_log(self) -> None:
        """Who reads for long keeps the write-ahead log from being used again: say so once."""
        size, kept_us = self._core.wal()
        if kept_us >= 0 and not self._warned:
            log.warning(
                "the write-ahead log of %s has grown to %d MB: a connection has been reading from"
                " an old state of the file for at least %d s",
                self._file.path,
                size // 1_000_000,
                kept_us // SECOND,
            )
        self._warned = kept_us >= 0


def let_go(core: Core) -> bool:
    """
    One slice of what is not kept any longer: by the queues' retention, and runs that were done, or
    cancelled, long ago. What has failed or is parked stays. Whether there is more.

    A queue of wake-ups that keeps what has ended lets a run go with its wake-up; those of others go
    after a week, or after the longest that any keeps.
    """
    more = core.retain(RETAIN_ROWS)[1]
    flow = Flow(core)
    before_us = core.now() - max(RUNS_KEPT_US, *_kept_us(core))
    for state in (FP.RUN_DONE, FP.RUN_CANCELLED):
        if flow.purge(state, before_us, 1, apply=False)[0]:  # which writes nothing
            more |= flow.purge(state, before_us, RETAIN_ROWS, apply=True)[1]
    return more


def _kept_us(core: Core) -> Iterator[int]:
    """Of each queue of wake-ups, and 0."""
    yield 0
    for (_, profile, *_), name in named(core.stats()):
        if profile == FP.PROFILE_WAKEUP:
            yield core.queue_find(None, name.encode())[1]["keep_us"]


def _settle(verdicts: list[Verdict]) -> array[int] | list[Verdict]:
    """As the core takes it: plain acks have a shorter form."""
    if all(verdict.verb == FP.ACK and verdict.result is None for verdict in verdicts):
        return pack.pairs((verdict.id, verdict.token) for verdict in verdicts)
    return verdicts
