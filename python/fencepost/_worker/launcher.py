"""How claims begin to run: the lease of each held, its slot taken, or given back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from time import monotonic
from typing import Final

from fencepost._file import File
from fencepost._worker.channel import Channel
from fencepost._worker.dispatcher import Claims, Dispatcher
from fencepost._worker.executor import Backlog, Executor
from fencepost._worker.groups import AHEAD_MAX, Batches, Group, Singles
from fencepost._worker.routes import Route
from fencepost._worker.runs import Host, Run
from fencepost.spans import SECOND

__all__ = ["Launcher"]

WARY: Final = 1.0  # seconds in which a message that may be deadly shows what it is
BEGUN: Final = 0.5  # of its lease, by when a handler has begun; else its message is given back
AHEAD_LEASE_US: Final = SECOND  # where a lease is shorter, nothing is read ahead

log: Final = logging.getLogger("fencepost.worker")


class Launcher:
    """For one loop. `running` has every run from its start on, those in a backlog, too."""

    def __init__(
        self,
        host: Host,
        file: File,
        executor: Executor,
        channel: Channel,
        routes: Mapping[str, Route],
        *,
        give_back: Callable[[Claims, int], None],
        clear: Callable[[], None],
    ) -> None:
        self.running: set[Run] = set()
        self._host = host
        self._executor = executor
        self._routes = routes
        self._dispatcher = Dispatcher(host, file, channel, routes)
        self.learn = self._dispatcher.learn
        self._give_back = give_back
        self._clear = clear  # called before what may be deadly begins

    def take_back(self, group: Group, count: int | None = None) -> Claims:
        """Up to so many, or all, of those that no slot is coming for, the last ones first."""
        runs: list[Run] = []
        backlog = group.backlog
        count = backlog.left if count is None else count
        while len(runs) < count and backlog.waiting:
            try:
                runs.append(backlog.waiting.pop())
            except IndexError:  # a thread was faster
                break
        backlog.out -= len(runs)
        return self._forget(runs)

    def groups(self, told: Callable[[], None]) -> list[Group]:
        """
        Queues whose messages are run one by one by where they run, what must not be read ahead
        apart, each batch handler alone. `told` is called when one of them may need the loop.
        """
        found = list(self._routes.values())
        single = [route for route in found if not route.handler or route.queue._batch == 1]
        groups: list[Group] = []
        for coroutine, prompt in product((False, True), repeat=2):
            routes = [one for one in single if (one.coroutine, one.prompt) == (coroutine, prompt)]
            if routes:
                shortest_us = min(route.lease_us for route in routes)
                ahead = shortest_us >= AHEAD_LEASE_US and not prompt
                groups.append(
                    Singles(
                        [route.number for route in routes],
                        self._executor,
                        self._singles,
                        told,
                        coroutine=coroutine,
                        most=AHEAD_MAX if ahead else 0,
                    )
                )
        groups += [
            Batches(
                route.number,
                self._executor,
                partial(self._batch, route),
                told,
                coroutine=route.coroutine,
                size=route.queue._batch,
                linger_us=route.queue._linger_us,
            )
            for route in found
            if route not in single
        ]
        return groups

    # ---- making runs -----------------------------------------------------------------------------

    def _singles(self, group: Group, claims: Claims, slots: int) -> None:
        """Each by itself. The slots are of the sort that their group needs."""
        runs = [run for claim in claims if (run := self._dispatcher.alone(claim)) is not None]
        self._launch(group, runs, slots)

    def _batch(self, route: Route, group: Group, claims: Claims, slots: int) -> None:
        """All of them together."""
        self._launch(group, [self._dispatcher.together(route, claims)], slots)

    # ---- letting them run ------------------------------------------------------------------------

    def _launch(self, group: Group, runs: list[Run], slots: int) -> None:
        """
        Those of the group's own sort have a slot or a place in its backlog; the others need a slot
        of the other sort, and are given back if there is none.
        """
        own = [run for run in runs if run.coroutine == group.backlog.coroutine]
        self._begin(group.backlog, own, slots)
        if len(own) < len(runs):
            others = [run for run in runs if run.coroutine != group.backlog.coroutine]
            found = self._executor.reserve(len(others), coroutine=group.other.coroutine)
            self._begin(group.other, others[:found], found)
            left = [claim for run in others[found:] for claim in run.claims]
            self._give_back_short(left, group.other)

    def _begin(self, backlog: Backlog, runs: list[Run], slots: int) -> None:
        """Let them run. Slots that are left are given back, and so is all that cannot start."""
        try:
            if runs:
                used = self._executor.staff(min(slots, len(runs)), coroutine=backlog.coroutine)
                if any(claim._lapsed for run in runs for claim in run.claims):
                    self._clear()
                    self._executor.beware(runs[0], WARY)  # the core hands out such a one by itself
                self._hold(runs)
                backlog.out += len(runs)
                backlog.waiting.extend(runs)
                self._executor.serve(backlog, used)
                slots -= used
        except Exception as error:  # no memory, no further thread, no descriptor for an event loop
            log.warning("%s could not start: %s", runs[0].name, error)
            self._executor.falter(coroutine=backlog.coroutine)
            self._give_back_short(self._forget(runs), backlog)
        self._executor.give_back(slots, coroutine=backlog.coroutine)

    def _give_back_short(self, claims: Claims, backlog: Backlog) -> None:
        """There was nobody to serve them: to be claimed again when somebody may be."""
        delay_us = int(self._executor.short(coroutine=backlog.coroutine) * SECOND)
        self._give_back(claims, delay_us)

    def _hold(self, runs: list[Run]) -> None:
        held: list[int] = []
        now = monotonic()
        for run in runs:
            lease_us = self._routes[run.claims[0]._queue.name].lease_us
            if run.coroutine:
                run.cancel = partial(self._executor.cancel, run)
            run.begin_by = now + lease_us * BEGUN / SECOND
            for claim in run.claims:
                until_us = 0
                if run.timeout_us is not None:
                    until_us = claim._lease_end_us - lease_us + run.timeout_us
                held += (claim.id, claim.token, lease_us, until_us)
        self._host.leases.hold(held)
        self.running.update(runs)

    def _forget(self, runs: list[Run]) -> Claims:
        """They do not run: their claims, to be given back."""
        claims = [claim for run in runs for claim in run.claims]
        self.running.difference_update(runs)
        for run in runs:
            self._executor.trust(run)
        if claims:
            self._host.leases.drop(claims)
        return claims
