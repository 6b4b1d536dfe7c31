"""
One pass of a workflow: from the top of its function to where it has to wait, or to its end.

A result is recorded when its step has ended, and before anything else of the run begins: the record
is handed over at once, and whatever comes next waits for its commit. Only the end of the pass does
not wait: the last records and the end are one commit. So each step costs one, and the last none.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple, NoReturn, Protocol, TypeVar

from fencepost._checks import is_coroutine, shown
from fencepost._verdicts import backoff_us
from fencepost._worker.failpoints import Point
from fencepost._workflow.history import (
    FAILED,
    PATCH,
    STEP,
    TRANSACT,
    TRIED,
    Entry,
    History,
    Record,
    patch_key,
    tried_key,
)
from fencepost._workflow.outcomes import Changed, Suspension, Withdrawn
from fencepost._workflow.roundtrip import raised_as, read_due, roundtrip, write_raised
from fencepost._workflow.tasks import Tasks, within
from fencepost.codec import Codec
from fencepost.errors import PermanentError, RetryLater
from fencepost.transactions import Transaction
from fencepost.values import Backoff

__all__ = ["Ledger", "Options", "Pass", "Told"]

T = TypeVar("T")

HOPS: Final = 4
STRAYS: Final = "the workflow awaits what is not its run's"

log: Final = logging.getLogger("fencepost.worker")


class Told(NamedTuple):
    """What the file said to records: where others were first, their values; `withdrawn`: the run
    was cancelled.
    """

    others: dict[str, bytes | None]
    withdrawn: bool


class Ledger(Protocol):
    """What a pass asks of the file and of its worker."""

    workflow: str  # its name

    def now_us(self) -> int: ...  # store time
    def wall_us(self) -> int: ...  # the clock of callers' moments
    def at(self, point: Point, *names: str) -> None: ...
    def stopping(self) -> bool: ...  # the pass should come to its end
    async def reason(self) -> Literal["told", "lost", "withdrawn"] | None: ...  # of its cancelling
    async def aside(self, fn: Callable[[], T]) -> T: ...  # in a thread
    async def write(self, entries: Sequence[Entry]) -> Told: ...  # Fenced
    async def transact(
        self, key: str, started_us: int, effect: Callable[[Transaction], bytes]
    ) -> bytes | None: ...  # what is recorded by then, ours or another's; Fenced


class Options(NamedTuple):
    """Of a step: how often it is tried within the run, and what it returns."""

    max_attempts: int = 1
    backoff: Backoff = Backoff()
    timeout: float | None = None
    returns: Any = None
    typed: bool = False  # `returns` was said


class Wait(NamedTuple):
    """Something that is waited for: until a moment, for others, or whichever is first."""

    due_us: int | None
    others: bool


class Pass:
    """The state that all options of one Run share."""

    def __init__(
        self,
        ledger: Ledger,
        codec: Codec,
        history: History,
        *,
        permanent: Sequence[type[BaseException]] = (),
    ) -> None:
        self.ledger = ledger
        self.codec = codec
        self.history = history
        self.waits: dict[str, Wait] = {}
        self.pending: list[Entry] = []
        self.tasks = Tasks()
        self.withdrawn = False
        self.over = False  # the function has returned or raised: nothing further begins
        self.broken: BaseException | None = None
        self.changed: Changed | None = None  # whatever becomes of the task that it was raised in
        self.progress: bytes | None = None
        self.taken = 0  # the last message to the run that was received
        self._permanent = tuple(permanent)
        self._patches: set[str] = set()
        # Failures that the workflow may still catch, each with the task that it was raised in.
        self._doubtful: list[tuple[Entry, asyncio.Task[Any] | None]] = []

    # ---- the order of things ---------------------------------------------------------------------

    def ask(self, name: str, kind: int) -> Record | None:
        """As `History.ask`. `InvalidArgument` for who asks within a step, too."""
        self.tasks.check_asks(shown(name))
        try:
            return self.history.ask(name, kind)
        except Changed as error:
            self.changed = error
            raise

    async def in_turn(self, record: Record | None = None) -> None:
        """
        Until all that was recorded before it was asked for; None: all that is recorded.

        What runs side by side may have to come to ask for it. Where nobody comes any further, the
        code is another one: `Changed`.
        """

        def come() -> bool:
            return self.over or self.history.missing(record) is None

        def tell(busy: str) -> None:
            missing = self.history.missing(record)
            name = "" if missing is None else missing.key
            log.warning("%s: %r is recorded, and %s, %s", self.ledger.workflow, name, STRAYS, busy)

        if not await self.tasks.turn(come, tell) and (missing := self.history.missing(record)):
            self.changed = Changed(_changed(missing, record))
            raise self.changed

    async def go_live(self) -> None:
        """Something that is not recorded is about to begin: all before it is in the file."""
        await self.frontier()
        await self.flush()
        self._check()

    async def frontier(self) -> None:
        """The same for what begins nothing: its record may go with those before it."""
        await self.in_turn()
        self._check()
        self._confirm()

    def _check(self) -> None:
        if self.broken is not None:
            raise self.broken
        if self.withdrawn:
            raise Withdrawn("the run was cancelled")
        if self.over:
            raise Withdrawn("the pass is over: what is begun now could not be recorded")

    async def suspend(self, name: str, due_us: int | None, *, others: bool) -> NoReturn:
        """The pass ends here, once what stands beside it has come as far as it can."""

        def tell(busy: str) -> None:
            log.warning("%s waits for %r, and %s, %s", self.ledger.workflow, name, STRAYS, busy)

        self.waits[name] = Wait(due_us, others)
        await self.tasks.wait(tell)
        raise Suspension(name)

    # ---- recording -------------------------------------------------------------------------------

    def note(self, entry: Entry) -> None:
        """To be recorded: at once, or with the end of the pass if that comes without a wait."""
        self.pending.append(entry)
        asyncio.get_running_loop().call_soon(self._later, HOPS)

    def _later(self, hops: int) -> None:
        """As many goes of the event loop as a result needs to come to who awaits it."""
        if hops and self.pending:
            asyncio.get_running_loop().call_soon(self._later, hops - 1)
        else:
            self._write_soon()

    def _write_soon(self) -> None:
        if self.pending and self.tasks.writing is None and self.broken is None:
            self.tasks.writing = asyncio.get_running_loop().create_task(self._write())

    async def flush(self) -> None:
        """Until all that was noted is in the file. Raises what kept it from there."""
        while self.broken is None and (self.pending or self.tasks.writing is not None):
            self._write_soon()
            if self.tasks.writing is not None:
                await asyncio.shield(self.tasks.writing)
        if self.broken is not None:
            raise self.broken

    async def settled(self) -> None:
        """Until nothing is being written any more; what is left in `pending` goes with the end."""
        if self.tasks.writing is not None:
            await asyncio.shield(self.tasks.writing)

    async def _write(self) -> None:
        entries, self.pending = self.pending, []
        try:
            told = await self.ledger.write(entries)
            self.withdrawn = self.withdrawn or told.withdrawn
            for entry in entries:
                self.ledger.at("step recorded", self.ledger.workflow, entry.key)
        except BaseException as error:
            self.broken = error
            self.pending = [one for one in entries if one.start is None] + self.pending
        finally:
            self.tasks.writing = None

    async def at_once(self, entry: Entry) -> Told:
        """Recorded now, for the sake of the answer."""
        await self.flush()
        told = await self.ledger.write([entry])
        self.withdrawn = self.withdrawn or told.withdrawn
        return told

    def answer_for(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """What failed in these tasks may be caught by the one that awaited them."""
        ours = asyncio.current_task()
        self._doubtful = [(entry, ours if t in tasks else t) for entry, t in self._doubtful]

    def _doubt(self, entry: Entry) -> None:
        """
        It failed for good. If the workflow goes on, that is part of its history; if the pass fails
        with it, the next one tries again.
        """
        self._doubtful.append((entry, asyncio.current_task()))

    def _confirm(self) -> None:
        """Whoever goes on has caught what was raised: its own, or that of tasks that it awaited."""
        task = asyncio.current_task()
        doubtful, self._doubtful = self._doubtful, []
        for entry, raised_in in doubtful:
            ended = raised_in is None or raised_in.done()
            if raised_in is task or (task is self.tasks.main and ended):
                self.note(entry)
            else:
                self._doubtful.append((entry, raised_in))

    def confirm_all(self) -> None:
        """The pass ends well: whatever failed in it was caught."""
        self.pending += [entry for entry, _ in self._doubtful]
        self._doubtful = []

    def patched(self, name: str) -> bool:
        found = self.history.patched(name)
        if found is None and name not in self._patches:
            self._patches.add(name)
            self.note(Entry(patch_key(name), PATCH, None))
        return found is not False

    # ---- steps -----------------------------------------------------------------------------------

    async def replay(self, record: Record, returns: Any) -> Any:
        await self.in_turn(record)
        if record.kind == FAILED:
            raise raised_as(record.value)
        return self.codec.decode(record.value or b"null", returns)

    async def step(
        self, name: str, record: Record | None, call: Callable[[], Any], options: Options
    ) -> Any:
        """`call` is the function with its arguments."""
        if record is not None:
            return await self.replay(record, options.returns)
        await self.go_live()
        return await self._tried(name, STEP, options, partial(self._called, call))

    async def transact(
        self, name: str, record: Record | None, call: Callable[..., Any], options: Options
    ) -> Any:
        """`call` takes the transaction."""
        if record is not None:
            return await self.replay(record, options.returns)
        await self.go_live()
        return await self._tried(name, TRANSACT, options, partial(self._transacted, call))

    async def _tried(
        self,
        name: str,
        kind: int,
        options: Options,
        effect: Callable[[str, int, Options], Coroutine[Any, Any, Any]],
    ) -> Any:
        """One attempt; the one after it is another pass's."""
        before = self.history.attempts(name)
        if before and self.ledger.now_us() < (due_us := read_due(before[-1].value)):
            await self.suspend(name, due_us, others=False)
        attempt = len(before) + 1
        started_us = self.ledger.now_us()
        ended = await self.tasks.out_of_reach(effect(name, started_us, options))
        error = ended.error
        if error is None:
            return ended.value
        if not isinstance(error, Exception) or isinstance(error, RetryLater):
            raise error
        if attempt < options.max_attempts and not self._hopeless(error):
            due_us = self.ledger.now_us() + backoff_us(options.backoff, attempt)
            key = tried_key(name, attempt)
            self.note(Entry(key, TRIED, write_raised(error, due_us), started_us))
            await self.suspend(name, due_us, others=False)
        self._doubt(Entry(name, FAILED, write_raised(error), started_us))
        raise error

    def _hopeless(self, error: Exception) -> bool:
        return isinstance(error, (PermanentError, *self._permanent))

    async def _called(
        self, call: Callable[[], Any], name: str, started_us: int, options: Options
    ) -> Any:
        value = await within(self._value(call), options.timeout)
        self.ledger.at("step done", self.ledger.workflow, name)
        body, back = roundtrip(self.codec, value, options.returns, f"the result of {name!r}")
        self.note(Entry(name, STEP, body, started_us))
        return back

    async def _value(self, call: Callable[[], Any]) -> Any:
        """Of a coroutine, or of a plain function, which may have made one."""
        value = (
            call() if is_coroutine(getattr(call, "func", call)) else await self.ledger.aside(call)
        )
        return await value if inspect.isawaitable(value) else value

    async def _transacted(
        self, call: Callable[..., Any], name: str, started_us: int, options: Options
    ) -> Any:
        def effect(tx: Transaction) -> bytes:
            value = call(tx)
            self.ledger.at("step done", self.ledger.workflow, name)
            return roundtrip(self.codec, value, options.returns, f"the result of {name!r}")[0]

        stored = await self.ledger.transact(name, started_us, effect)
        self.ledger.at("step recorded", self.ledger.workflow, name)
        return self.codec.decode(stored or b"null", options.returns)


def _changed(missing: Record, record: Record | None) -> str:
    what = "something that is not recorded yet" if record is None else repr(record.key)
    return (
        f"the code has changed: {missing.key!r} is recorded, and the code now asks for"
        f" {what} before it, or not for it at all; deploy code that fits, guard the change with"
        " run.patched(), or fork the run"
    )
