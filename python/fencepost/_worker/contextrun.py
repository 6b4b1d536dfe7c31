"""One message run by itself, for a handler that is given, or may ask for, a context."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from fencepost._binding.pack import Verdict
from fencepost._verdicts import QUEUES_OWN, acked, backoff_us, failed, raised, retry
from fencepost._worker import failpoints
from fencepost._worker.runs import Host, Run, log_raised
from fencepost.claims import Claim
from fencepost.context import Context
from fencepost.envelope import Unfit
from fencepost.errors import LeaseLost, PayloadError
from fencepost.values import Backoff

__all__ = ["ContextRun"]

log: Final = logging.getLogger("fencepost.worker")

Arguments = tuple[Sequence[Any], dict[str, Any]]


class ContextRun(Run):
    """The `Errand` of its context, too."""

    _backoff: Backoff | None = None  # None: the queue's own
    _permanent: Sequence[type[BaseException]] = ()

    def __init__(
        self,
        host: Host,
        name: str,
        claim: Claim[Any],
        queue: str,
        fn: Callable[..., Any],
        *,
        coroutine: bool,
        timeout_us: int | None = None,
    ) -> None:
        super().__init__(host, name, [claim], coroutine=coroutine, timeout_us=timeout_us)
        self._claim = claim
        self._queue = queue
        self._fn = fn
        self._context: Context | None = None

    def call(self) -> None:
        prepared = self._prepared()
        if prepared is None:
            return
        context, args, kwargs = prepared
        try:
            with self._surrounded(context):
                result = self._fn(*args, **kwargs)
            self._returned(context, result)
        except BaseException as error:
            self._raised(error)
        finally:
            self._roll_back(context._close())

    async def await_(self) -> None:
        prepared = self._prepared()
        if prepared is None:
            return
        context, args, kwargs = prepared
        try:
            with self._surrounded(context):
                result = await self._fn(*args, **kwargs)
            self._returned(context, result)
        except BaseException as error:
            self._raised(error)
        finally:
            self._roll_back(context._close())

    def take_progress(self) -> bytes | None:
        return None if self._context is None else self._context._take_progress()

    # ---- the steps -------------------------------------------------------------------------------

    def _prepared(self) -> tuple[Context, Sequence[Any], dict[str, Any]] | None:
        """None: the handler cannot be called, and the verdict says why; or it was not entered."""
        if not self.enter():
            return None
        try:
            failpoints.at("claimed", self.name)
            context = self._context = self._make_context()
            return context, *self._arguments(context)
        except PayloadError as error:
            self._unreadable(error)
        except BaseException as error:  # a codec's own, or no memory: not the payload's fault
            self._raised(error)
        return None

    def _make_context(self) -> Context:
        return Context(self._claim, self._queue, self)

    def _arguments(self, context: Context) -> Arguments:
        """What the handler is called with. `PayloadError`."""
        raise NotImplementedError

    @contextmanager
    def _surrounded(self, context: Context) -> Iterator[None]:
        """What is around a handler sees what it raises, and cannot make a result of it."""
        left_by: BaseException | None = None
        with ExitStack() as stack:
            for around in self._registry.arounds:
                stack.enter_context(around(context))
            try:
                yield
            except BaseException as error:
                left_by = error
                raise
        if left_by is not None:
            raise left_by

    def _returned(self, context: Context, result: object) -> None:
        failpoints.at("handled", self.name)
        try:
            body = None if result is None else self.encode(result)
        except PayloadError as error:
            log.warning("%s %d: its result cannot be encoded", self.name, self._claim.id)
            self.verdicts = [failed(self._claim._key, "unencodable", None, str(error))]
            return
        refused = self._refused()
        if refused is not None:
            raise LeaseLost(refused)
        verdict = acked(self._claim._key, body)
        if context._commit(verdict):
            failpoints.at("committed", self.name)
        elif context._settled_in is None:
            self.verdicts = [verdict]
        else:
            self.verdicts = [self._doubted()]

    def _doubted(self) -> Verdict:
        """
        The handler acked in a transaction of its own. If that was committed, the core answers that
        it is settled already, and nothing changes; if it was not, the message is tried again.
        """
        text = "it was acked in a transaction that was not committed"
        delay_us = self._backoff_us(self._claim)
        return retry(self._claim._key, delay_us, "error", "RolledBack", text)

    def _unreadable(self, error: PayloadError) -> None:
        kind = error.kind if isinstance(error, Unfit) else "undecodable"
        log.warning("%s %d: it cannot be handled: %s", self.name, self._claim.id, kind)
        self.verdicts = [failed(self._claim._key, kind, None, str(error))]

    def _raised(self, error: BaseException) -> None:
        self._note_interruption(error)
        what = self._spoken()
        if self._told(error):
            log.info("%s stopped: %s", what, self._why)
            self.verdicts = self._stopped(self._claim)
            return
        log_raised(what, error)
        self._note_hold(error)
        self.verdicts = [
            raised(
                self._claim._key,
                error,
                attempt=self._claim.attempt,
                backoff=self._backoff,
                permanent=self._permanent,
            )
        ]

    def _spoken(self) -> str:
        return f"{self.name} {self._claim.id}, attempt {self._claim.attempt},"

    def _unsettled(self) -> Sequence[Claim[Any]]:
        context = self._context
        return self.claims if context is None or context._settled_in is None else ()

    def _backoff_us(self, claim: Claim[Any]) -> int:
        backoff = self._backoff
        return QUEUES_OWN if backoff is None else backoff_us(backoff, claim.attempt)
