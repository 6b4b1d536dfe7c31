"""
Between event loops and one open file: calls of coroutines, without a thread for each.

    writing     one thread crosses with all that has come since its last crossing: they are lined up
                side by side and share commits (csrc/api_gather.c); each fails alone
    watching    one thread waits for all that is waited for (_binding/watch.py)
    asking      a few threads for what is neither: pages, counts, copies; and two for transactions

The threads are there only as long as something is to be done. A coroutine that is cancelled takes
its call back if no thread has taken it; if one has, it happens.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final, TypeAlias, TypeVar

from fencepost._binding.calls import Core
from fencepost._binding.codes import FP
from fencepost._binding.pack import Packed, Verdict, claims
from fencepost._binding.requests import Request
from fencepost._binding.results import Result
from fencepost._binding.waiters import Callers, Threads, deliver
from fencepost._binding.watch import Lined, Watch
from fencepost.errors import Error, ForkedHandle, QueueFull

__all__ = ["Bridge"]

T = TypeVar("T")

Wanted: TypeAlias = "Request[T] | Callable[[], Request[T]]"

MOST: Final = 128  # calls of one crossing: as many as the core takes into one commit
ASKERS: Final = 4
BODIES: Final = 2  # one has its turn, and one stands in line for it


class Writing(Lined[T]):
    """
    A request on its way. With `wait_us`, one that was done in vain is done again when the file has
    changed so that it might not be. What has to ask the file before it can be laid out does so when
    it is taken, so that calls keep their order.
    """

    __slots__ = ("bridge", "patient_until", "request", "wanted_request")

    def __init__(self, bridge: Bridge, request: Wanted[T], *, wait_us: int = 0) -> None:
        super().__init__(bridge.writers.changed, wait_us)
        self.bridge = bridge
        self.wanted_request = request
        self.request: Request[T] | None = request if isinstance(request, Request) else None
        self.be_patient()

    def be_patient(self) -> None:
        """From now on it waits so long for its turn."""
        self.patient_until = monotonic() + self.bridge.core.patience

    @property
    def queue(self) -> int:
        return 0 if self.request is None else self.request.queue

    def ready(self) -> bool:
        """Lay it out. False: it failed of that."""
        if self.request is None and not isinstance(self.wanted_request, Request):
            try:
                self.request = self.wanted_request()
            except Exception as error:
                self.error = error
        return self.request is not None

    def in_vain(self) -> bool:
        """There was no room for it."""
        return isinstance(self.error, QueueFull)

    def skipped(self) -> None:
        self.bridge.watch.skipped(self)


class Taking(Writing["tuple[list[int], Packed]"]):
    """A claim. What it took and nobody hears of goes back into the line, with its attempt."""

    __slots__ = ()
    for_messages = True

    def in_vain(self) -> bool:
        return self.error is None and not self.value[1].rows

    def unheard(self) -> None:
        if self.error is None and self.value[1].rows:
            found = [row[:2] for row in claims(self.value[1])]
            self.bridge.let_go([Verdict(id_, token, FP.RELEASE) for id_, token in found])


class Bridge:
    """Of one handle, in the process that opened it."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.writers = Threads("writes", self._write, threads=1, most=MOST)
        self._askers = Callers("asks", ASKERS)
        self._bodies = Callers("transacts", BODIES)
        self.watch = Watch(core, self._try_again)
        self._process = os.getpid()

    # ---- for coroutines --------------------------------------------------------------------------

    async def write(self, request: Wanted[T], wait_us: int = 0) -> T:
        """In a commit that it may share with others. An enqueue waits so long for room."""
        return await self._written(Writing(self, request, wait_us=wait_us))

    async def take(
        self, request: Wanted[tuple[list[int], Packed]], wait_us: int
    ) -> tuple[list[int], Packed]:
        """The same for a claim, which waits so long for the first message."""
        return await self._written(Taking(self, request, wait_us=wait_us))

    async def ask(self, fn: Callable[[], T]) -> T:
        """Whatever `fn` does, in another thread, with the context variables of the caller."""
        self._check()
        return await self._askers.call(fn)

    async def transact(self, fn: Callable[[], T]) -> T:
        """The same for what waits for the writer, so that no reader stands behind it."""
        self._check()
        return await self._bodies.call(fn)

    async def change(self, version: int) -> None:
        """Until the file's version is not this one any more."""
        self._check()
        await self.watch.change(version)

    async def end(self, id_: int, wait_us: int | None) -> Result | None:
        """What became of the message, once it has ended. None: it has not, in this time."""
        self._check()
        return await self.watch.end(id_, wait_us)

    def let_go(self, verdicts: Sequence[Verdict]) -> None:
        """Settle what nobody waits for, as far as it can be done: leases run out by themselves."""

        def settle() -> None:
            with suppress(Error):
                self.core.settle(None, verdicts)

        with suppress(RuntimeError):
            self._askers.cast(settle)

    def rest(self) -> None:
        """Until all that was asked for before has been written, or its patience is over."""
        self.writers.wait_until_idle(self.core.patience)

    def dismiss(self) -> None:
        """The handle is closed: whoever still calls is told so, and no thread stays for more."""
        for threads in (self.writers, self._askers, self._bodies, self.watch):
            threads.dismiss()

    def _check(self) -> None:
        """In a child of a fork there are no threads of ours, and a lock of theirs may be held."""
        if os.getpid() != self._process:
            raise ForkedHandle(
                "this handle was opened before a fork: a child process has to open the file itself"
            )

    # ---- writing ---------------------------------------------------------------------------------

    async def _written(self, waiter: Writing[T]) -> T:
        self._check()
        self.writers.put([waiter])
        return await waiter.awaited()

    def _try_again(self, waiters: Sequence[Lined[Any]]) -> None:
        for waiter in waiters:
            waiter.be_patient()
        self.writers.put(waiters)

    def _write(self, waiters: Sequence[Writing[Any]]) -> None:
        failed = [waiter for waiter in waiters if not waiter.ready()]
        requests = [waiter.request for waiter in waiters if waiter.request is not None]
        waiters = [waiter for waiter in waiters if waiter.request is not None]
        waits = [waiter for waiter in waiters if waiter.wait_us]
        version = self.core.version() if waits else 0  # before they look at whether there is room
        self.watch.clock([waiter for waiter in waits if waiter.until_us is None])
        went = self.core.gather(requests)
        now = monotonic()
        again: list[Writing[Any]] = []
        told: list[Writing[Any]] = failed
        for waiter, request, how in zip(waiters, requests, went, strict=True):
            if how.again and not waiter.unwanted and now < waiter.patient_until:
                again.append(waiter)
                continue
            waiter.error = how.error
            if how.error is None:
                waiter.value = request.read()
            request.free()
            if not self.watch.went(waiter, version, in_vain=waiter.in_vain()):
                told.append(waiter)
        if again:
            self.writers.put(again, first=True)
        deliver(told)
