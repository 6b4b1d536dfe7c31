"""
The stores of `without-durability` over a file of ours: its `work`, `resume` and `run_durably` run
on them as they are. That package needs Python 3.14: `pip install 'fencepost[without-durability]'`.

    database = connect("workflows.db")
    durable = Durable(Checkpointer(database), Scheduler(database))
    await work(durable, body)

The names of its own SQLite store are here as well, so that one changed import is all. Where ours
promises something else on purpose: docs/decisions/without-durability.md.

Each call runs in a thread of the database's own, and those that write at the same time share a
commit. Its exceptions are that package's: `Fenced` for a pass that has lost its workflow; all
others are the store's, from `Busy` to `StorageError`.
"""

from __future__ import annotations

from dataclasses import dataclass

import without_durability as origin

from fencepost.compat.without_durability.database import (
    Cursor,
    Database,
    Effect,
    connect,
    id_of,
    migrate,
)
from fencepost.compat.without_durability.records import Checkpointer, key_of
from fencepost.compat.without_durability.wakeups import Scheduler

__all__ = ["Checkpointer", "Cursor", "Database", "Durable", "Effect", "Scheduler", "connect"]
__all__ += ["SqliteCheckpointer", "SqliteDurable", "SqliteEffect", "SqliteScheduler", "migrate"]


@dataclass(frozen=True)
class Durable:
    """Both, for what has to be one commit. `ValueError` unless they share one `Database`."""

    checkpointer: Checkpointer
    scheduler: Scheduler

    def __post_init__(self) -> None:
        if self.checkpointer.database is not self.scheduler.database:
            raise ValueError("both stores of a Durable must share one Database")

    async def arrive(self, workflow: str, key: str, value: object) -> object:
        """`supply` and `make_ready`."""
        both, encoded = self.checkpointer, self.checkpointer.encoded(value)

        def one_commit() -> bytes | None:
            queue = self.scheduler.queue()
            flow = both.database.flow
            stored, _ = flow.arrive(
                None, id_of(workflow), key_of(key), encoded, queue=queue, live=False
            )
            return stored

        return both.decoded(await both.database.call(one_commit))

    async def deliver(self, workflow: str, value: object) -> origin.Entry:
        """`append` and `make_ready`."""
        both, encoded = self.checkpointer, self.checkpointer.encoded(value)

        def one_commit() -> bytes:
            queue = self.scheduler.queue()
            return both.database.flow.deliver(
                None, id_of(workflow), encoded, queue=queue, live=False
            )

        key = await both.database.call(one_commit)
        return origin.Entry(key.decode(), both.decoded(encoded))

    async def delete(self, workflow: str) -> int:
        """`cancel` and `discard`."""
        database = self.checkpointer.database

        def one_commit() -> int:
            return database.flow.delete(None, id_of(workflow), self.scheduler.queue())

        return await database.call(one_commit)


SqliteCheckpointer = Checkpointer
SqliteDurable = Durable
SqliteEffect = Effect
SqliteScheduler = Scheduler
