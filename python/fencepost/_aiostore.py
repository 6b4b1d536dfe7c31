"""A store's twin: what an operator may ask and do, and a transaction, from a coroutine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from fencepost._checks import function
from fencepost.errors import InvalidArgument
from fencepost.transactions import Transaction, transaction, unwrap
from fencepost.values import (
    Content,
    FailureKind,
    Halted,
    Message,
    Page,
    Policy,
    Replayed,
    Span,
    State,
    StrPath,
)

if TYPE_CHECKING:
    from typing_extensions import Self, TypeForm, Unpack

    from fencepost._workflow.runfile import RunPage, RunState
    from fencepost.aio import AsyncQueue
    from fencepost.store import Store

__all__ = ["AsyncStore"]

P = ParamSpec("P")
T = TypeVar("T")

TURN: Span = 5  # seconds that `transact` waits for its turn, as Store.transaction does


class AsyncStore:
    """
    A Store's twin: `async with fencepost.open(path).aio as store`.

    What is not gathered into shared commits is done by a few threads of the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.path = store.path

    def __repr__(self) -> str:
        return f"{self._store!r}.aio"

    @overload
    def queue(self, name: str, type: type[T], /, **policy: Unpack[Policy]) -> AsyncQueue[T]: ...
    @overload
    def queue(self, name: str, type: TypeForm[T], /, **policy: Unpack[Policy]) -> AsyncQueue[T]: ...
    def queue(self, name: str, type: Any, /, **policy: Unpack[Policy]) -> AsyncQueue[Any]:
        """See `Store.queue`."""
        return self._store.queue(name, type, **policy).aio

    async def transact(
        self, fn: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """
        Run a plain function in a transaction: its SQL, and all calls that it makes with `tx=`, in
        one commit when it returns, or nothing of it if it raises.

        It runs in another thread, with the context variables of the caller, and awaits nothing:
        while it runs, the file's one writer waits for it. Cancelled before it has begun, it does
        not run; later, it runs and commits. Raises `Busy` as `Store.transaction`.
        """
        function(fn, "the body of a transaction")
        if inspect.iscoroutinefunction(fn):
            raise InvalidArgument(
                "the body of a transaction awaits nothing: it is a plain function"
            )

        def body() -> T:
            with transaction(self._store._file, TURN) as tx:
                return fn(tx, *args, **kwargs)

        unwrap(self._store._file, None)
        return await self._store._file.bridge.transact(body)

    # ---- looking ---------------------------------------------------------------------------------

    async def messages(
        self,
        state: State,
        *,
        queue: str | None = None,
        lane: str | None = None,
        kind: str | None = None,
        failure: FailureKind | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page:
        """See `Store.messages`."""
        page = partial(self._store.messages, state, queue=queue, lane=lane, kind=kind)
        page = partial(page, failure=failure)
        return await self._ask(lambda: page(since=since, before=before, after=after, limit=limit))

    async def message(self, id: int, /) -> Message | None:
        """See `Store.message`."""
        return await self._ask(lambda: self._store.message(id))

    async def runs(
        self,
        state: RunState | None = None,
        *,
        name: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> RunPage:
        """See `Store.runs`."""
        runs = partial(self._store.runs, state, name=name)
        return await self._ask(lambda: runs(after=after, limit=limit))

    async def content(self, id: int, /) -> Content:
        """See `Store.content`."""
        return await self._ask(lambda: self._store.content(id))

    async def stats(self) -> dict[str, Any]:
        """See `Store.stats`."""
        return await self._ask(self._store.stats)

    async def check(self, *, full: bool = False) -> list[str]:
        """See `Store.check`."""
        return await self._ask(lambda: self._store.check(full=full))

    # ---- doing -----------------------------------------------------------------------------------

    async def replay(
        self,
        messages: Iterable[Message],
        /,
        *,
        delay: Span = 0,
        rate: float | None = None,
        note: str = "",
    ) -> list[Replayed]:
        """See `Store.replay`."""
        wanted = list(messages)
        replay = partial(self._store.replay, wanted, delay=delay, rate=rate, note=note)
        return await self._ask(replay)

    async def confirm(self, messages: Iterable[Message], /, *, note: str = "") -> int:
        """See `Store.confirm`."""
        wanted = list(messages)
        return await self._ask(lambda: self._store.confirm(wanted, note=note))

    async def cancel(self, messages: Iterable[Message], /) -> int:
        """See `Store.cancel`."""
        wanted = list(messages)
        return await self._ask(lambda: self._store.cancel(wanted))

    async def purge(
        self,
        state: State,
        before: datetime,
        *,
        queue: str | None = None,
        limit: int = 1000,
        apply: bool = False,
    ) -> int:
        """See `Store.purge`."""
        purge = partial(self._store.purge, state, before)
        return await self._ask(lambda: purge(queue=queue, limit=limit, apply=apply))

    async def halted_lanes(
        self, queue: str, /, *, after: str = "", limit: int = 50
    ) -> list[Halted]:
        """See `Store.halted_lanes`."""
        return await self._ask(lambda: self._store.halted_lanes(queue, after=after, limit=limit))

    async def release_lane(self, queue: str, lane: str, /) -> bool:
        """See `Store.release_lane`."""
        return await self._ask(lambda: self._store.release_lane(queue, lane))

    async def pause(self, queue: str, /) -> None:
        """See `Store.pause`."""
        await self._ask(lambda: self._store.pause(queue))

    async def resume(self, queue: str, /) -> None:
        """See `Store.resume`."""
        await self._ask(lambda: self._store.resume(queue))

    async def backup(self, dest: StrPath, /, *, overwrite: bool = False) -> None:
        """See `Store.backup`."""
        await self._ask(lambda: self._store.backup(dest, overwrite=overwrite))

    # ---- the end ---------------------------------------------------------------------------------

    async def close(self) -> None:
        """See `Store.close`. What was called before is written first."""

        def close() -> None:
            self._store._file.bridge.rest()
            self._store.close()

        await self._ask(close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _ask(self, fn: Callable[[], T]) -> T:
        unwrap(self._store._file, None)
        return await self._store._file.bridge.ask(fn)
