"""
The loop: one thread for each store that settles what is finished and claims what is due.

    finished runs --> verdicts --+
                                 +--> one commit --> claims --> slots --> runs
    free slots -----> take ------+

Both halves are one commit, because on a disk the currency is commits. While that commit is under
way further handlers finish, and the next one carries all of them. Nothing is claimed that could not
start at once, and nothing is written while nothing is due: the core looks before it begins a
transaction.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final

from fencepost._batchrun import BatchRun
from fencepost._calls import FP
from fencepost._crew import Crew
from fencepost._desk import Desk
from fencepost._groups import Batches, Group, Singles
from fencepost._jobrun import JobRun
from fencepost._leases import Leases
from fencepost._pack import Take, Verdict
from fencepost._registry import Registry
from fencepost._routes import Route, routes
from fencepost._runs import STOPPING, TIMED_OUT, Run
from fencepost._verdicts import UNKNOWN_NAME_US, later, released
from fencepost.claims import Claim
from fencepost.errors import Busy, Closed, Error, ForkedHandle, NewerSchema
from fencepost.spans import MOMENT_MAX
from fencepost.store import Store

__all__ = ["Loop"]

TICK: Final = 0.010  # seconds between two looks while handlers run
TICK_US: Final = 10_000
NOTES_EVERY: Final = 0.25  # seconds between two writes of progress
RETAIN_FIRST: Final = 3.0  # seconds after the start
RETAIN_EVERY: Final = 60.0
WARY: Final = 1.0  # seconds in which a message that may be deadly shows what it is
LAST_WORD: Final = 0.5  # seconds for handlers to answer when they are told to stop
LAST_TRIES: Final = 5  # to settle what is left before the end
PAUSE_MAX: Final = 5.0  # seconds after the store has failed again and again

log: Final = logging.getLogger("fencepost.worker")


class Loop:
    """
    The worker of one store. Its parts are made in `start`, in the caller's thread, so that what is
    wrong from the beginning is raised there.
    """

    def __init__(
        self, store: Store, registry: Registry, crew: Crew, names: Collection[str]
    ) -> None:
        self.store = store
        self.registry = registry
        self.failure: Error | None = None  # why it ended by itself
        self.released = 0  # messages that were given back unfinished
        self.leases: Leases
        self._file = store._file
        self._crew = crew
        self._names = names
        self._stopping = threading.Event()
        self._grace_until = 0.0
        self._hurried = False
        self._running: set[Run] = set()
        self._ended: deque[Run] = deque()  # filled by the handlers' threads
        self._resting = False  # in the core, which somebody has to call out of
        self._names_of_kinds = {0: ""}
        self._pause = 0.0
        self._watch_at = 0.0
        self._notes_at = 0.0
        self._retain_at = monotonic() + RETAIN_FIRST
        self._thread = threading.Thread(target=self._serve, name="fencepost-worker", daemon=True)

    # ---- from outside ----------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        """Make the queues that are missing, and begin. Raises as `Store` does."""
        found = routes(self._file, self.registry, self._names)
        self._routes = {route.queue.name: route for route in found}
        self._desk = Desk(self._file, {route.number: route.queue for route in found})
        self._groups = self._grouped(found)
        self._group_of = {number: group for group in self._groups for number in group.queues}
        self.leases = Leases(self._file.core, min(route.lease_us for route in found))
        self._thread.start()
        log.info("%s: working on %s", self.store.path, ", ".join(sorted(self._names)))

    def stop(self, grace: float) -> None:
        """
        Claim no more; what still runs after `grace` seconds is given back. Again: sooner, and with
        no grace at all without trying twice to say so.
        """
        self._hurried = self._stopping.is_set() and grace <= 0
        if self.alive:
            log.info("%s: stopping within %g s", self.store.path, grace)
        until = monotonic() + grace
        self._grace_until = min(until, self._grace_until) if self._stopping.is_set() else until
        self._stopping.set()
        with self._crew.changed:
            self._crew.changed.notify_all()
        self._file.core.nudge()

    def join(self) -> None:
        """Until it has stopped."""
        self._thread.join()

    # ---- the thread ------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while not self._stopping.is_set():
                self._survive(self._turn)
            self._wind_down()
        except Error as error:
            self.failure = error
            log.critical("%s: the worker ends: %s", self.store.path, error)
        finally:
            for group in self._groups:
                group.give_up()
            self.leases.end()
            log.info("%s: stopped", self.store.path)

    def _survive(self, turn: Callable[[], None]) -> None:
        """What may pass is waited out; what cannot pass ends the loop."""
        try:
            turn()
            self._pause = 0.0
        except (NewerSchema, Closed, ForkedHandle):
            raise
        except Busy as error:
            log.info("%s: %s", self.store.path, error)
        except Exception as error:
            self._pause = min(max(2 * self._pause, 0.1), PAUSE_MAX)
            log.warning(
                "%s: %s; again in %g s",
                self.store.path,
                error,
                self._pause,
                exc_info=not isinstance(error, Error),
            )
            with self._crew.changed:
                self._crew.changed.wait(self._pause)

    def _turn(self) -> None:
        moved = self._collect()
        self._watch()
        self._retain()
        for group in self._groups:
            take = None if self._crew.wary else group.reserve()
            if take is not None:
                moved |= self._claim(group, take)
                group.ripen()
        if self._desk:
            self._desk.exchange(None)
            moved = True
        if not moved:
            self._rest()

    def _claim(self, group: Group, take: Take) -> bool:
        """One exchange for a group that has room. Whether anything was claimed."""
        claims: Sequence[Claim[Any]] = []
        try:
            claims = self._receive(take)
        finally:
            self._give_back(group.accept(claims))
        return bool(claims)

    def _receive(self, take: Take) -> Sequence[Claim[Any]]:
        """One exchange. Claims whose names cannot be read just now are given back."""
        claims = self._desk.exchange(take)
        try:
            if any(claim._kind not in self._names_of_kinds for claim in claims):
                self._names_of_kinds = {0: "", **dict(self._file.kinds())}
        except BaseException:
            self._give_back(claims)
            raise
        return claims

    def _rest(self) -> None:
        """Nothing was to be done: wait for something to be due, or for a handler to finish."""
        with_room = [group for group in self._groups if group.has_room()]
        waiting = any(group.gathered for group in self._groups)
        if waiting or self._crew.wary or not with_room:
            self._wait_for_handlers()
        else:
            self._wait_for_messages(with_room)

    def _wait_for_handlers(self) -> None:
        with self._crew.changed:
            if not self._ended:
                self._crew.changed.wait(TICK)

    def _wait_for_messages(self, groups: Sequence[Group]) -> None:
        """Wait for one from whichever queue, a handler's end, or a stop; claim no more than one."""
        queues = [number for group in groups for number in group.queues]
        nudges = self._file.core.nudges()
        self._resting = True  # whoever comes from now on nudges
        try:
            if self._ended or self._stopping.is_set():
                return
            slice_us = TICK_US if self._running else 0
            take = Take(queues, 1, until_us=MOMENT_MAX, slice_us=slice_us, nudges=nudges)
            found = self._receive(take)
        finally:
            self._resting = False
        for claim in found:
            group = self._group_of[self._routes[claim._queue.name].number]
            group.reserve()
            self._give_back(group.accept([claim]))

    # ---- starting --------------------------------------------------------------------------------

    def _grouped(self, found: Sequence[Route]) -> list[Group]:
        """Singles by where they run, and each batch handler for itself."""
        groups: list[Group] = []
        single = [route for route in found if not route.handler or route.queue._batch == 1]
        for coroutine in (False, True):
            numbers = [route.number for route in single if route.coroutine == coroutine]
            if numbers:
                start = partial(self._start_single, coroutine)
                groups.append(Singles(numbers, self._crew, start, coroutine=coroutine))
        groups += [
            Batches(
                route.number,
                self._crew,
                partial(self._start_batch, route),
                coroutine=route.coroutine,
                size=route.queue._batch,
                linger_us=route.queue._linger_us,
            )
            for route in found
            if route not in single
        ]
        return groups

    def _start_single(self, coroutine: bool, claim: Claim[Any]) -> None:
        """In a slot that is reserved, of the sort that its group needs."""
        route = self._routes[claim._queue.name]
        if route.handler:
            self._begin(BatchRun(self, route.queue, [claim]), route, coroutine)
            return
        name = self._names_of_kinds.get(claim._kind, "")
        job = self.registry.job(name)
        if job is not None:
            self._begin(JobRun(self, job, claim, route.queue.name), route, coroutine)
            return
        log.warning("message %d is for %r, which this App does not know", claim.id, name)
        self._crew.give_back(1, coroutine=coroutine)
        text = "no worker knew this name"
        verdict = later(claim._key, UNKNOWN_NAME_US, "unknown_name", name, text)
        self._desk.add(name, [verdict])

    def _start_batch(self, route: Route, claims: Sequence[Claim[Any]]) -> None:
        self._begin(BatchRun(self, route.queue, claims), route, route.coroutine)

    def _begin(self, run: Run, route: Route, coroutine: bool) -> None:
        """Hold its claims, and let it run in the slot that is reserved; or give back both."""
        if run.coroutine != coroutine:
            self._crew.give_back(1, coroutine=coroutine)
            if not self._crew.reserve(1, coroutine=run.coroutine):
                self._give_back(run.claims)
                return
        try:
            self._hold(run, route.lease_us)
            if any(claim._lapsed for claim in run.claims):
                self._crew.beware(run, WARY)
            self._running.add(run)
            ended = partial(self._end, run)
            if run.coroutine:
                run.cancel = self._crew.spawn(run.await_, ended)
            else:
                self._crew.run(run.call, ended)
        except Exception as error:  # no memory, no further thread
            log.warning("%s could not start: %s", run.name, error)
            self._running.discard(run)
            self._crew.trust(run)
            self._crew.give_back(1, coroutine=run.coroutine)
            for claim in run.claims:
                self.leases.drop(claim)
            self._give_back(run.claims)

    def _hold(self, run: Run, lease_us: int) -> None:
        for claim in run.claims:
            began_us = claim._lease_end_us - lease_us
            until_us = 0 if run.timeout_us is None else began_us + run.timeout_us
            self.leases.hold(claim, lease_us, until_us)

    # ---- ending ----------------------------------------------------------------------------------

    def _end(self, run: Run) -> None:
        """Called where the handler ran."""
        self._ended.append(run)
        if self._resting:
            self._file.core.nudge()

    def _collect(self) -> bool:
        """Take in what finished runs have to say. Whether there were any."""
        moved = False
        while self._ended:
            run = self._ended.popleft()
            self._crew.trust(run)
            if not run.abandoned:
                self._conclude(run, run.verdicts if run.entered else run.give_up())
                moved = True
        return moved

    def _conclude(self, run: Run, verdicts: Sequence[Verdict]) -> None:
        self._running.discard(run)
        for claim in run.claims:
            self.leases.drop(claim)
        self._desk.add(run.name, verdicts)
        if self._stopping.is_set():
            self.released += sum(verdict.verb == FP.RELEASE for verdict in verdicts)
        if run.hold_us is not None:
            declaration = self._routes[run.claims[0]._queue.name].declaration
            self._desk.hold(declaration, run.hold_us)

    def _abandon(self, run: Run, why: str) -> None:
        """Settle its messages without it. Its slot stays taken until it returns."""
        run.stop(why)
        run.abandoned = True
        self._conclude(run, run.give_up())

    def _give_back(self, claims: Sequence[Claim[Any]]) -> None:
        """What was claimed and cannot start."""
        if self._stopping.is_set():
            self.released += len(claims)
        for claim in claims:
            self._desk.add(claim._queue.name, [released(claim._key)])

    def _watch(self) -> None:
        """Time-outs, lost leases, and what handlers say about how far they are."""
        now = monotonic()
        if now < self._watch_at:
            return
        self._watch_at = now + TICK
        for run in tuple(self._running):
            if run.deadline is not None and now >= run.deadline:
                log.warning("%s %d: %s", run.name, run.claims[0].id, TIMED_OUT)
                self._abandon(run, TIMED_OUT)
                continue
            run.tell()
            value = run.take_progress()
            if value is not None:
                self._desk.note(run.claims[0].id, value)
        if now >= self._notes_at:
            self._notes_at = now + NOTES_EVERY
            self._desk.write_notes()

    def _retain(self) -> None:
        """What retention lets go, in slices that take at most a tenth of the time."""
        began = monotonic()
        if began < self._retain_at:
            return
        more = self._desk.retain()
        now = monotonic()
        self._retain_at = now + (9 * (now - began) if more else RETAIN_EVERY)

    def _wind_down(self) -> None:
        """Let what runs finish within the grace, and give back the rest."""
        for group in self._groups:
            self._give_back(group.give_up())
        while self._running and monotonic() < self._grace_until:
            self._survive(self._last_turn)
        for run in self._running:
            run.stop(STOPPING)
        last = monotonic() + LAST_WORD
        while self._running and monotonic() < last:
            self._survive(self._last_turn)
        for run in tuple(self._running):
            log.warning("%s %d did not stop: given back", run.name, run.claims[0].id)
            self._abandon(run, STOPPING)
        for tried in range(LAST_TRIES):
            if self._desk and not (tried and self._hurried):
                self._survive(self._last_turn)

    def _last_turn(self) -> None:
        self._collect()
        self._watch()
        if self._desk:
            self._desk.exchange(None)
        else:
            self._wait_for_handlers()
