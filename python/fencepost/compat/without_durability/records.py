"""A workflow's records, and who may add to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, NoReturn

import without_durability as origin

from fencepost._binding.calls import FP
from fencepost._binding.flow import RecordPut
from fencepost._checks import name_bytes
from fencepost.compat.without_durability.database import Cursor, Database, Effect, id_of, spans
from fencepost.errors import LeaseLost
from fencepost.spans import moment
from fencepost.transactions import unwrap

__all__ = ["Checkpointer", "key_of"]

# Prefixes of keys that are the core's own; a step that is named so is stored under a longer key.
RESERVED: Final = ("child:", "parent:", "key:")


@dataclass(frozen=True)
class Checkpointer:
    """A workflow's records, and who may add to them: its package's `Checkpointer[Effect]`."""

    database: Database
    codec: origin.CheckpointCodec[str] = origin.JSON

    async def load(self, workflow: str) -> dict[str, object]:
        """All records, in the order in which they were first written. Waits for no writer."""
        return {key: value for key, value, _ in await self._records(workflow)}

    async def history(self, workflow: str) -> dict[str, origin.Written]:
        """The same, each with the moment of the write that won."""
        found = await self._records(workflow)
        return {key: origin.Written(value, moment(at)) for key, value, at in found}

    async def _records(self, workflow: str) -> list[tuple[str, object, int]]:
        def look() -> list[tuple[str, object, int]]:
            found = self.database.flow.records(id_of(workflow))
            return [(_named(one.key), self.decoded(one.value), one.written_us) for one in found]

        return await self.database.call(look)

    async def claim(self, workflow: str, budget: timedelta, alive: timedelta) -> origin.Pass | None:
        """The right to run one pass, or None: somebody else has it."""
        call = partial(self.database.flow.claim, id_of(workflow), *spans(budget, alive))
        token = await self.database.insist(call)
        return origin.Pass(workflow, token) if token else None

    async def extend(self, holder: origin.Pass, budget: timedelta, alive: timedelta) -> bool:
        """Grant `budget` from now, if that is later; False: the pass has lost its workflow."""
        call = partial(self.database.flow.extend, None, *_pass(holder), *spans(budget, alive))
        return await self.database.call(call)

    async def renew(self, holder: origin.Pass, alive: timedelta) -> bool:
        """A sign of life; False: the pass has lost its workflow, or has used up its budget."""
        call = partial(self.database.flow.renew, None, *_pass(holder), *spans(alive))
        return await self.database.call(call)

    async def release(self, holder: origin.Pass) -> None:
        """Give the workflow back. The token stays: what is on its way may still be recorded."""
        await self.database.insist(partial(self.database.flow.release, None, *_pass(holder)))

    async def record(self, holder: origin.Pass, key: str, value: object) -> origin.Recorded:
        """Keep the value, unless the key has one; what it has then. Raises `Fenced`."""
        call = partial(self.database.flow.record, None, [self._put(holder, key, value)])
        (done,) = await self.database.call(call)
        if done.answer == FP.LOST:
            _fenced(holder)
        return origin.Recorded(self.decoded(done.value), done.answer == FP.DONE)

    async def transact(self, holder: origin.Pass, key: str, effect: Effect) -> object:
        """
        `effect(cursor)` and the record of what it returns, in one transaction: at most once over
        all passes. Raises `Fenced`, and what the effect raises; then nothing has happened.
        """
        return await self.database.call(partial(self._transact, holder, key, effect))

    def _transact(self, holder: origin.Pass, key: str, effect: Effect) -> object:
        database, flow = self.database, self.database.flow
        with database.store.transaction(timeout=database.timeout) as begun:
            tx = unwrap(database.file, begun)
            try:
                there, stored = flow.find(tx, *_pass(holder), key_of(key))
            except LeaseLost:
                _fenced(holder)
            if not there:
                put = self._put(holder, key, effect(Cursor(begun)))
                stored = put.value
                flow.record(tx, [put])
        return self.decoded(stored)

    async def supply(self, workflow: str, key: str, value: object) -> object:
        """A value from outside of any pass, unless the key has one; what it has then."""
        call = partial(
            self.database.flow.supply, None, id_of(workflow), key_of(key), self.encoded(value)
        )
        stored, _ = await self.database.call(call)
        return self.decoded(stored)

    async def append(self, workflow: str, value: object) -> origin.Entry:
        """A message to the workflow, under a key of the store's own."""
        encoded = self.encoded(value)
        call = partial(self.database.flow.append, None, id_of(workflow), encoded)
        key = await self.database.call(call)
        return origin.Entry(key.decode(), self.decoded(encoded))

    async def discard(self, workflow: str) -> int:
        """Forget all records, how many there were; a pass that is out is `Fenced` from now on."""
        call = partial(self.database.flow.discard, None, id_of(workflow))
        return await self.database.call(call)

    def _put(self, holder: origin.Pass, key: str, value: object) -> RecordPut:
        return RecordPut(*_pass(holder), key_of(key), FP.RECORD_STEP, self.encoded(value))

    def encoded(self, value: object) -> bytes:
        encoded: str = self.codec.encode(value)
        return encoded.encode()

    def decoded(self, value: bytes | None) -> object:
        decoded: object = self.codec.decode((value or b"").decode())
        return decoded


def key_of(key: str) -> bytes:
    """The name of a step as the core takes it."""
    return name_bytes(f"key:{key}" if key.startswith(RESERVED) else key, "a step's key")


def _named(key: bytes) -> str:
    return key.decode().removeprefix("key:")


def _pass(holder: origin.Pass) -> tuple[bytes, int]:
    return id_of(holder.workflow), holder.token


def _fenced(holder: origin.Pass) -> NoReturn:
    raise origin.Fenced(f"{holder.workflow!r} went on while this pass held it") from None
