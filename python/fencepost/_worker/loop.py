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
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from fencepost._binding.calls import FP
from fencepost._binding.pack import Take
from fencepost._verdicts import released
from fencepost._worker.channel import Channel
from fencepost._worker.executor import Executor
from fencepost._worker.flowwriter import FlowWriter
from fencepost._worker.groups import Group
from fencepost._worker.launcher import Launcher
from fencepost._worker.leases import Leases
from fencepost._worker.prefetch import BUDGET
from fencepost._worker.registry import Registry
from fencepost._worker.routes import routes
from fencepost._worker.runs import STOPPING, TIMED_OUT, Run
from fencepost._worker.scheduler import Scheduler
from fencepost.claims import Claim
from fencepost.errors import Busy, Closed, Error, ForkedHandle, NewerSchema
from fencepost.store import Store

__all__ = ["Loop"]

TICK: Final = 0.010  # seconds between two looks while handlers run
TICK_US: Final = 10_000
NOTES_EVERY: Final = 0.25  # seconds between two writes of progress
RETAIN_FIRST: Final = 3.0  # seconds after the start
RETAIN_EVERY: Final = 60.0
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
        self, store: Store, registry: Registry, executor: Executor, names: Collection[str]
    ) -> None:
        self.store = store
        self.registry = registry
        self.failure: Error | None = None  # why it ended by itself
        self.released = 0  # messages that were given up or given back
        self.leases: Leases
        self.flows = FlowWriter(store._file, executor.threads)
        self._file, self._executor = store._file, executor
        self._names = names
        self._stopping, self._over = threading.Event(), threading.Event()
        self._grace_until, self._hurried = 0.0, False
        self._news = 0  # what our runs told us; changed with the executor's lock
        self._seen = 0  # of that, when this turn began
        self._began_at = 0.0  # this turn
        self._said_at = 0.0  # the last turn in which all that had ended was settled
        self._resting = False  # in the core, which somebody has to call out of
        self._pause = self._watch_at = self._notes_at = 0.0
        self._retain_at = monotonic() + RETAIN_FIRST
        self._thread = threading.Thread(target=self._serve, name="fencepost-worker", daemon=True)

    # ---- from outside ----------------------------------------------------------------------------

    def clock(self) -> float:
        return monotonic()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        """Make the queues that are missing, and begin. Raises as `Store` does."""
        found = routes(self._file, self.registry, self._names)
        self._routes = {route.queue.name: route for route in found}
        self._scheduler = Scheduler(self._file, self.registry.schedules, self._names)
        self._channel = Channel(self._file, {route.number: route.queue for route in found})
        self._launcher = Launcher(
            self,
            self._file,
            self._executor,
            self._channel,
            self._routes,
            give_back=self._give_back,
            clear=self._clear_the_way,
        )
        self._running = self._launcher.running
        self._groups = self._launcher.groups(self._told)
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
        with self._executor.changed:
            self._told()
            self._executor.changed.notify_all()

    def _told(self) -> None:
        """Something is to be done: by whom it concerns, with the executor's lock."""
        self._news += 1
        if self._resting:
            with suppress(Error):
                self._file.core.nudge()

    def join(self) -> None:
        """Until it has stopped; interrupted, it can be asked again, as a thread itself cannot."""
        self._over.wait()
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
                self._launcher.take_back(group)  # or it would be begun although nobody settles it
            self.leases.end()
            self.flows.close()
            log.info("%s: stopped", self.store.path)
            self._over.set()

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
            with self._executor.changed:
                self._executor.changed.wait(self._pause)

    def _turn(self) -> None:
        self._begin_turn()
        self._watch()
        self._retain()
        self._scheduler.turn()
        moved = False
        self._groups.append(self._groups.pop(0))  # each is the first in its turn
        for group in tuple(self._groups):
            pressed = bool(self._channel) and not self._may_hold()
            take = None if self._executor.wary else group.reserve(pressed=pressed)
            if take is not None:
                moved |= self._claim(group, take)
                group.ripen()
        if self._channel and not self._may_hold():
            self._exchange(None)
            moved = True
        if not moved:
            self._rest()

    def _begin_turn(self) -> None:
        self._seen = self._news
        self._began_at = monotonic()
        self._collect()

    def _exchange(self, take: Take | None) -> list[Claim[Any]]:
        """Settle what had ended when the turn began, and claim."""
        claims = self._channel.exchange(take)
        self._said_at = self._began_at
        return claims

    def _may_hold(self) -> bool:
        """
        Results may wait for the next claim, if one will come soon: there is a backlog that is being
        worked off. None waits for longer than the budget.
        """
        backlogged = any(group.backlog.left for group in self._groups)
        return backlogged and not self._executor.wary and self._began_at < self._said_at + BUDGET

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
        claims = self._exchange(take)
        try:
            self._launcher.learn(claims)
        except BaseException:
            self._give_back(claims)
            raise
        return claims

    def _clear_the_way(self) -> None:
        """
        What may kill us is about to start: settle what has ended, and give back what has not begun,
        so that it takes nothing with it but what runs at the same time.
        """
        self._collect()
        for group in self._groups:
            self._unread(group)
        self._exchange(None)

    def _rest(self) -> None:
        """Nothing was to be done: wait for something to be due, or for a handler to finish."""
        with_room = [group for group in self._groups if group.has_room()]
        waiting = any(group.gathered for group in self._groups)
        backlogged = any(group.backlog.left for group in self._groups)
        if waiting or backlogged or self._executor.wary or not with_room:
            self._wait_for_handlers()
        else:
            self._wait_for_messages(with_room)

    def _wait_for_handlers(self) -> None:
        """Who works off a backlog does not tell of each end: look in time to hold none for long."""
        seconds = TICK
        if any(group.backlog.left for group in self._groups):
            left = self._said_at + BUDGET - monotonic()
            seconds = left if left > 0 else BUDGET
        with self._executor.changed:
            if self._news == self._seen:
                self._executor.changed.wait(seconds)

    def _wait_for_messages(self, groups: Sequence[Group]) -> None:
        """Wait for one from whichever queue, a handler's end, room, or a stop; claim only one."""
        queues = [number for group in groups for number in group.queues]
        nudges = self._file.core.nudges()
        self._resting = True  # whoever comes from now on nudges
        try:
            if self._news != self._seen or self._stopping.is_set():
                return
            slice_us = TICK_US if self._running or len(groups) < len(self._groups) else 0
            take = Take(
                queues, 1, until_us=self._scheduler.until_us, slice_us=slice_us, nudges=nudges
            )
            found = self._receive(take)
        finally:
            self._resting = False
        for claim in found:
            group = self._group_of[self._routes[claim._queue.name].number]
            group.reserve()
            self._give_back(group.accept([claim]))

    # ---- ending ----------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Take in what finished runs have to say."""
        runs: list[Run] = []
        for group in self._groups:
            runs += group.ended()
        for run in runs:
            self._executor.trust(run)
        self._conclude(run for run in runs if not run.abandoned)

    def _conclude(self, runs: Iterable[Run]) -> None:
        """Their verdicts are said with the next exchange; their leases need no keeper any more."""
        claims: list[Claim[Any]] = []
        holding: list[Run] = []
        for run in runs:
            verdicts = run.said()
            self._running.discard(run)
            run.cancel = None
            self._channel.add(run.name, verdicts)
            claims += run.claims
            if self._stopping.is_set():
                given_up = (FP.RELEASE, FP.UNKNOWN) if run.abandoned else (FP.RELEASE,)
                self.released += sum(verdict.verb in given_up for verdict in verdicts)
            if run.hold_us is not None:
                holding.append(run)
        if claims:
            self.leases.drop(claims)
        for run in holding:
            assert run.hold_us is not None
            route = self._routes[run.claims[0]._queue.name]
            self._unread(self._group_of[route.number])
            self._channel.hold(route.declaration, run.hold_us)

    def _abandon(self, run: Run, why: str) -> None:
        """Settle its messages without it. Its slot stays taken until it returns."""
        run.stop(why)
        run.abandoned = True
        self._conclude([run])

    def _unread(self, group: Group, count: int | None = None) -> None:
        """
        What was read ahead goes back to its place. It was never begun, so nobody who stops us is
        told of it.
        """
        for claim in self._launcher.take_back(group, count):
            self._channel.add(claim._queue.name, [released(claim._key)])

    def _give_back(self, claims: Sequence[Claim[Any]], delay_us: int = 0) -> None:
        """What was claimed and cannot start, or not soon enough."""
        if self._stopping.is_set():
            self.released += len(claims)
        for claim in claims:
            self._channel.add(claim._queue.name, [released(claim._key, delay_us)])

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
                self._channel.note(run.claims[0].id, value)
        for group in self._groups:
            surplus = group.backlog.left if self._executor.wary else group.surplus(now)
            if surplus:
                self._unread(group, surplus)
        if now >= self._notes_at:
            self._notes_at = now + NOTES_EVERY
            self._channel.write_notes()

    def _retain(self) -> None:
        """What retention lets go, in slices that take at most a tenth of the time."""
        began = monotonic()
        if began < self._retain_at:
            return
        more = self._channel.retain()
        now = monotonic()
        self._retain_at = now + (9 * (now - began) if more else RETAIN_EVERY)

    def _wind_down(self) -> None:
        """Let what runs finish within the grace, and give back the rest."""
        for group in self._groups:
            self._give_back(group.give_up())
            self._unread(group)
        while self._running and monotonic() < self._grace_until:
            self._survive(self._last_turn)
        for run in self._running:
            run.stop(STOPPING)
        last = monotonic() + LAST_WORD
        while self._running and monotonic() < last:
            self._survive(self._last_turn)
        for run in tuple(self._running):
            log.warning("%s %d did not stop: given up", run.name, run.claims[0].id)
            self._abandon(run, STOPPING)
        for tried in range(LAST_TRIES):
            if self._channel and not (tried and self._hurried):
                self._survive(self._last_turn)

    def _last_turn(self) -> None:
        self._begin_turn()
        self._watch()
        if self._channel:
            self._exchange(None)
        else:
            self._wait_for_handlers()
