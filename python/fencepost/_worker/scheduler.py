"""
Firing schedules: whoever works on a job's queue also enqueues it when it is due.

A schedule is read, brought forward and enqueued for in one transaction, so of all processes one
does it. It says which message it enqueued last, and fires no other while that one is in line.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Final

from fencepost._binding import pack
from fencepost._binding.calls import FP, OpenTx
from fencepost._binding.pack import Fired
from fencepost._enqueue import Entry, put_entries
from fencepost._file import File
from fencepost._worker.schedule import MISSED, Schedule, latest
from fencepost.errors import QueueFull
from fencepost.spans import MOMENT_MAX, SECOND

__all__ = ["Scheduler"]

PATIENCE: Final = 1.0  # seconds to wait for the turn
AGAIN_US: Final = SECOND // 2  # when one could not fire: its last run is active, its queue is full
ON_TIME_US: Final = 60 * SECOND  # later than this a moment was missed
STATE: Final = 3  # in fp_get's records

log: Final = logging.getLogger("fencepost.worker")


class Scheduler:
    """The schedules of one file; `until_us` is when the next one is due."""

    def __init__(
        self, file: File, schedules: Iterable[Schedule], queues: Collection[str] | None = None
    ) -> None:
        self._file = file
        self._due = {
            schedule: 0 for schedule in schedules if queues is None or schedule.job._queue in queues
        }

    @property
    def until_us(self) -> int:
        return min(self._due.values(), default=MOMENT_MAX)

    def turn(self) -> None:
        """Fire what is due. Raises as the core."""
        if not self._due:
            return
        now = self._file.core.now()
        for schedule, due in self._due.items():
            if due <= now:
                self._due[schedule] = self._look(schedule, now)

    def _look(self, schedule: Schedule, now: int) -> int:
        """When to look again. Nothing is written where nothing is to be fired."""
        core = self._file.core
        known = core.schedule_find(None, schedule.name.encode())
        if known is not None and self._moment(schedule, known[0], now) is None:
            return self._next(schedule, known[0], now)
        # What a caller's transaction could not make is made before it.
        self._file.queue(schedule.job._declaration, None)
        self._file.kind(schedule.job.name, None)
        tx = core.begin(PATIENCE)
        try:
            due = self._fire(schedule, tx)
        except QueueFull as error:
            tx.end(commit=False)
            log.warning("%s could not fire: %s", schedule.name, error)
            return now + AGAIN_US
        except BaseException:
            tx.end(commit=False)
            raise
        tx.end(commit=True)
        return due

    def _fire(self, schedule: Schedule, tx: OpenTx) -> int:
        """Once more, now that nobody else can: what the file says of it, and what is due."""
        now = self._file.core.now()
        known = self._file.core.schedule_find(tx, schedule.name.encode())
        if known is None:  # from here on: nothing that lies before it was ever declared is fired
            self._keep(schedule, tx, now, 0)
            return self._next(schedule, now, now)
        last, running = known
        at = self._moment(schedule, last, now)
        if at is None:
            return self._next(schedule, last, now)
        if self._is_active(running, tx):
            return now + AGAIN_US
        self._keep(schedule, tx, at, self._enqueue(schedule, tx, at))
        log.info("%s: fired for %d us", schedule.name, at)
        return self._next(schedule, at, now)

    def _moment(self, schedule: Schedule, last: int, now: int) -> int | None:
        """The moment to fire for, if there is one."""
        if schedule.missed == "all":
            at = schedule.rule.after(last)
            return at if at is not None and at <= now else None
        if schedule.missed == "skip":
            last = max(last, now - ON_TIME_US)
        return latest(schedule.rule, last, now)

    def _next(self, schedule: Schedule, last: int, now: int) -> int:
        """When something can be due, if it fired up to `last`."""
        if schedule.missed != "all":
            last = latest(schedule.rule, last, now) or last
        following = schedule.rule.after(last)
        return MOMENT_MAX if following is None else following

    def _is_active(self, message: int, tx: OpenTx) -> bool:
        for record in pack.records(self._file.core.get(tx, message)) if message else ():
            return record[STATE] in (FP.PENDING, FP.LEASED, FP.BEGUN, FP.WAITING)
        return False

    def _enqueue(self, schedule: Schedule, tx: OpenTx, at: int) -> int:
        job = schedule.job
        body = job._arguments.encode((), {})
        one = Entry(body, due_us=at, priority=job._priority)
        put = put_entries(self._file, [one], kind=job.name, max_attempts=job._max_attempts)
        put.queue = self._file.queue(job._declaration, tx)
        put.kind = self._file.kind(job.name, tx)
        return self._file.core.enqueue(tx, put)[0][0]

    def _keep(self, schedule: Schedule, tx: OpenTx, last: int, running: int) -> None:
        rule = schedule.rule
        self._file.core.schedule_keep(
            tx,
            Fired(
                schedule.name.encode(),
                rule.words.encode(),
                rule.zone.encode(),
                kind=self._file.kind(schedule.job.name, tx),
                missed=MISSED.index(schedule.missed),
                last_fired_us=last,
                running=running,
            ),
        )
