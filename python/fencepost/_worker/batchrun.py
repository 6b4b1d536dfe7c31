"""Messages of a plain queue, handled together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from fencepost._binding.pack import Verdict
from fencepost._checks import is_coroutine
from fencepost._verdicts import QUEUES_OWN, acked, failed, raised, released, retry, text_of
from fencepost._worker import failpoints
from fencepost._worker.runs import LOST, Host, Run, log_raised
from fencepost.claims import Batch, Claim
from fencepost.errors import InvalidArgument, PayloadError, PermanentError
from fencepost.queues import Queue
from fencepost.transactions import Transaction

__all__ = ["BatchRun"]

log: Final = logging.getLogger("fencepost.worker")


class BatchRun(Run):
    """The `Holder` of its batch, too."""

    def __init__(self, host: Host, queue: Queue[Any], claims: Sequence[Claim[Any]]) -> None:
        handler: Callable[[Batch[Any]], Any] | None = queue._handler
        assert handler is not None  # the loop claims from no other queue
        super().__init__(host, queue.name, claims, coroutine=is_coroutine(handler))
        self._handler = handler
        self._over = False
        self._tx: Transaction | None = None
        self._outside: set[int] | None = None  # settled by name before our transaction began

    @property
    def tx(self) -> Transaction:
        if self._over:
            raise InvalidArgument("a batch is valid until its handler returns")
        if self.coroutine:
            raise InvalidArgument("batch.tx is for plain functions: an async one would hold it")
        if self._tx is None:
            self._tx = self.begin()
            self._outside = self._settled()
        return self._tx

    @property
    def cancelled(self) -> bool:
        return self.why() is not None

    def call(self) -> None:
        if not self.enter():
            return
        batch = self._readable()
        try:
            if batch:
                self._handler(batch)
                self._returned(batch)
        except BaseException as error:
            self._raised(batch, error)
        finally:
            self._close()

    async def await_(self) -> None:
        if not self.enter():
            return
        batch = self._readable()
        try:
            if batch:
                await self._handler(batch)
                self._returned(batch)
        except BaseException as error:
            self._raised(batch, error)
        finally:
            self._close()

    # ---- the steps -------------------------------------------------------------------------------

    def _readable(self) -> Batch[Any]:
        """The messages that can be read; the others are dead letters, one by one."""
        failpoints.at("claimed", self.name)
        readable: list[Claim[Any]] = []
        for claim in self.claims:
            try:
                claim.payload  # noqa: B018 - decoded here, and kept by the claim
            except PayloadError as error:
                log.warning("%s %d: its payload cannot be decoded", self.name, claim.id)
                self.verdicts.append(failed(claim._key, "undecodable", None, str(error)))
            except BaseException as error:  # a codec's own, or no memory: not the payload's fault
                log_raised(f"{self.name} {claim.id}, decoded,", error)
                self.verdicts.append(self._verdict(claim, error, unsure=False))
            else:
                readable.append(claim)
        return Batch(readable, self)

    def _returned(self, batch: Batch[Any]) -> None:
        failpoints.at("handled", self.name)
        verdicts = [acked(claim._key) for claim in batch if not claim._settled]
        if self._tx is None:
            self.verdicts += verdicts
            return
        if verdicts:
            self.settle(verdicts, self._tx)
        tx, self._tx = self._tx, None
        tx._end(commit=True)
        failpoints.at("committed", self.name)

    def _raised(self, batch: Batch[Any], error: BaseException) -> None:
        self._note_interruption(error)
        # What was settled inside our transaction was rolled back with it.
        outside = self._settled() if self._outside is None else self._outside
        unsettled = [claim for claim in batch if claim.id not in outside]
        what = f"{self.name}, batch of {len(batch)},"
        if self._told(error):
            log.info("%s stopped: %s", what, self._why)
            for claim in unsettled:
                self.verdicts += self._stopped(claim)
            return
        log_raised(what, error)
        self._note_hold(error)
        # Which of a batch is past help will be seen when they come back one by one.
        unsure = isinstance(error, PermanentError) and len(batch) > 1
        self.verdicts += [self._verdict(claim, error, unsure=unsure) for claim in unsettled]

    def _verdict(self, claim: Claim[Any], error: BaseException, *, unsure: bool) -> Verdict:
        if unsure:
            name, text = type(error).__name__, text_of(error)
            return retry(claim._key, QUEUES_OWN, "error", name, text)
        return raised(claim._key, error, attempt=claim.attempt, backoff=None)

    def _close(self) -> None:
        self._over = True
        tx, self._tx = self._tx, None
        self._roll_back(tx)

    def _settled(self) -> set[int]:
        return {claim.id for claim in self.claims if claim._settled}

    def _unsettled(self) -> Sequence[Claim[Any]]:
        return [claim for claim in self.claims if not claim._settled]

    def _stopped(self, claim: Claim[Any]) -> list[Verdict]:
        # The lease of one was lost: the others are sound and start anew. The lost one's own release
        # changes nothing, for its token is old.
        return [released(claim._key)] if self._why == LOST else super()._stopped(claim)

    def _backoff_us(self, claim: Claim[Any]) -> int:
        return QUEUES_OWN
