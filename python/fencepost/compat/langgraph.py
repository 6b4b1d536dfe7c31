"""
A LangGraph checkpointer: `pip install 'fencepost[langgraph]'`.

    from fencepost.compat.langgraph import FencepostSaver

    graph = builder.compile(checkpointer=FencepostSaver(fencepost.open("app.db")))

Each put is one durable commit, shared with whoever commits at the same time; a look waits for no
writer, and many processes may use one file. Values go through LangGraph's own serializer, which
pickles nothing unless it is told to.

A thread is a shelf of its own. On it stand `c`, the checkpoints, by namespace and id, and `w`, what
was written beside each, by task and index; so that the newest checkpoint is the last of its range.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    SerializerProtocol,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from fencepost._binding.calls import OpenTx
from fencepost._binding.shelf import LAST, Kept, Shelf, shelves
from fencepost._file import file_of
from fencepost.errors import InvalidArgument
from fencepost.store import Store
from fencepost.transactions import unwrap

__all__ = ["FencepostSaver"]

SHELF: Final = "langgraph:"
# Sorts before everything that `quote` leaves, so that keys sort part by part.
BETWEEN, AFTER = "!", '"'
ASYNC_PAGE: Final = 50  # tuples that a coroutine's list reads ahead


class _Put(NamedTuple):
    """What stands under a checkpoint's key."""

    parent: str | None
    checkpoint: tuple[str, bytes]
    metadata: tuple[str, bytes]


class _Write(NamedTuple):
    """What stands under a write's key."""

    channel: str
    value: tuple[str, bytes]
    path: str


class _At(NamedTuple):
    """Where a checkpoint is."""

    thread: str
    namespace: str
    id: str

    @property
    def key(self) -> str:
        return _key("c", self.namespace, self.id)

    @property
    def config(self) -> RunnableConfig:
        return {
            "configurable": {
                "thread_id": self.thread,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": self.id,
            }
        }


class FencepostSaver(BaseCheckpointSaver[int]):
    """
    Checkpoints of graphs in a store, for all threads and event loops of the process.

    A checkpoint that is put again replaces itself; a task's writes are those it wrote first, but
    for its errors and interrupts, of which the last counts. `list` is newest first, by id. Raises
    what the store raises; the store is closed by who opened it.
    """

    def __init__(self, store: Store, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self.store = store
        self._file = file_of(store)

    # ---- looking ---------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, or the newest of its thread and namespace."""
        self._free()
        thread, namespace = _thread(config), _namespace(config) or ""
        shelf, named = self._shelf(thread), get_checkpoint_id(config)
        if named:
            found = shelf.get(None, _key("c", namespace, named))
        else:
            newest = shelf.walk(None, *_within("c", namespace), backwards=True, page=1)
            found = next(newest, None)
        return None if found is None else self._tuple(thread, found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """
        The checkpoints of a thread, of one namespace where `config` says so, or of all threads;
        those whose metadata has all of `filter`, with ids before that of `before`.
        """
        found = self._matching(config, before)
        wanted = (one for one in found if _has(one.metadata, filter))
        return islice(wanted, limit)

    def _matching(
        self, config: RunnableConfig | None, before: RunnableConfig | None
    ) -> Iterator[CheckpointTuple]:
        self._free()
        one = None if config is None else get_checkpoint_id(config)
        end = None if before is None else get_checkpoint_id(before)
        for at in self._places(config):
            if (one is None or at.id == one) and (end is None or at.id < end):
                found = self._shelf(at.thread).get(None, at.key)
                if found is not None:  # it may have been taken away meanwhile
                    yield self._tuple(at.thread, found)

    def _places(self, config: RunnableConfig | None) -> Iterator[_At]:
        """Where the checkpoints are, newest first. Several namespaces are gathered and sorted."""
        if config is not None and _namespace(config) is not None:
            yield from self._ids(_thread(config), *_within("c", _namespace(config) or ""))
            return
        threads = self._threads() if config is None else [_thread(config)]
        found = [at for thread in threads for at in self._ids(thread, *_within("c"))]
        found.sort(key=lambda at: at.id, reverse=True)
        yield from found

    def _ids(self, thread: str, start: str, upto: str, tx: OpenTx | None = None) -> Iterator[_At]:
        shelf = self._shelf(thread)
        for kept in shelf.walk(tx, start, upto, backwards=True, values=False):
            yield _at(thread, kept.key)

    def _threads(self) -> Iterator[str]:
        for name in shelves(self._file.core, None, SHELF):
            yield name.removeprefix(SHELF)

    def _tuple(self, thread: str, found: Kept) -> CheckpointTuple:
        at, put = _at(thread, found.key), _PUT.decode(found.value)
        return CheckpointTuple(
            at.config,
            self.serde.loads_typed(put.checkpoint),
            self.serde.loads_typed(put.metadata),
            None if put.parent is None else at._replace(id=put.parent).config,
            self._writes(at),
        )

    def _writes(self, at: _At) -> Sequence[tuple[str, str, Any]]:
        """In the order of the tasks' paths, then of tasks, then as each task wrote them."""
        found = []
        for kept in self._shelf(at.thread).walk(None, *_within("w", at.namespace, at.id)):
            _, _, _, task, index = _parts(kept.key)
            found.append((task, int(index), _WRITE.decode(kept.value)))
        found.sort(key=lambda one: (one[2].path, *one[:2]))
        return [(task, w.channel, self.serde.loads_typed(w.value)) for task, _, w in found]

    # ---- putting ---------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep the checkpoint; it follows the one that `config` names. Its own config."""
        self._free()
        at = _At(_thread(config), _namespace(config) or "", checkpoint["id"])
        put = _Put(
            get_checkpoint_id(config),
            self.serde.dumps_typed(checkpoint),
            self.serde.dumps_typed(get_checkpoint_metadata(config, metadata)),
        )
        self._shelf(at.thread).put(None, {at.key: _encode(put)}, replace=True)
        return at.config

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what a task has written beside the checkpoint that `config` names."""
        self._free()
        beside = get_checkpoint_id(config)
        if beside is None:
            raise InvalidArgument("writes stand beside a checkpoint: config has no checkpoint_id")
        namespace = _namespace(config) or ""
        records = {}
        for index, (channel, value) in enumerate(writes):
            place = str(WRITES_IDX_MAP.get(channel, index))
            write = _Write(channel, self.serde.dumps_typed(value), task_path)
            records[_key("w", namespace, beside, task_id, place)] = _encode(write)
        if records:
            special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
            self._shelf(_thread(config)).put(None, records, replace=special)

    # ---- taking away, copying --------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """All of a thread, in one commit."""
        self._free()
        self._shelf(str(thread_id)).erase(None, "", LAST)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """
        The checkpoints that these runs have put, in one commit for each thread; but not those that
        one of another run is rebuilt from.
        """
        self._free()
        wanted = set(run_ids)
        for thread in self._threads() if wanted else ():
            self._erase(thread, lambda at, metadata: metadata.get("run_id") not in wanted)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """All of a thread once more, under another id, in one commit."""
        self._free()
        source, target = self._shelf(str(source_thread_id)), self._shelf(str(target_thread_id))
        with self.store.transaction() as begun:
            tx = unwrap(self._file, begun)
            for kept in source.walk(tx, "", LAST):
                target.put(tx, {kept.key: kept.value}, replace=True)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """
        Of each thread and namespace all but the newest checkpoint, and those that it is rebuilt
        from, in one commit for each thread; with "delete", all of it.
        """
        if strategy not in ("keep_latest", "delete"):
            raise InvalidArgument(f'strategy is "keep_latest" or "delete", not {strategy!r}')
        self._free()
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                self._erase(thread, _newest())

    def _erase(self, thread: str, stays: Callable[[_At, CheckpointMetadata], bool]) -> None:
        """
        Checkpoints, each with what was written beside it, but those that stay, and those from which
        these are rebuilt.

        Of a `DeltaChannel` a checkpoint has no value: it is that of an ancestor and what was
        written since. Without them it would be empty, and nobody would be told.
        """
        doomed: list[_At] = []
        rebuilt: dict[_At, set[str]] = {}  # of each ancestor: channels that are looked for in it
        shelf = self._shelf(thread)
        for found in shelf.walk(None, *_within("c"), backwards=True):
            at, put = _at(thread, found.key), _PUT.decode(found.value)
            channels = rebuilt.pop(at, set())
            metadata: CheckpointMetadata = self.serde.loads_typed(put.metadata)
            if stays(at, metadata):
                channels |= metadata.get("counters_since_delta_snapshot", {}).keys()
            elif not channels:
                doomed.append(at)
            if channels and put.parent is not None:
                channels -= self.serde.loads_typed(put.checkpoint)["channel_values"].keys()
                rebuilt.setdefault(at._replace(id=put.parent), set()).update(channels)
        if not doomed:
            return
        with self.store.transaction() as begun:
            tx = unwrap(self._file, begun)
            for at in doomed:
                shelf.erase(tx, at.key, at.key + BETWEEN)
                shelf.erase(tx, *_within("w", at.namespace, at.id))

    # ---- the same, awaitable ---------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while page := await asyncio.to_thread(lambda: [*islice(found, ASYNC_PAGE)]):
            for one in page:
                yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    # ---- where it stands -------------------------------------------------------------------------

    def _shelf(self, thread: str) -> Shelf:
        return Shelf(self._file.core, SHELF + thread)

    def _free(self) -> None:
        """`InvalidArgument` for who has a transaction of this store open."""
        unwrap(self._file, None)


_PUT = msgspec.msgpack.Decoder(_Put)
_WRITE = msgspec.msgpack.Decoder(_Write)
_encode = msgspec.msgpack.encode


def _at(thread: str, key: str) -> _At:
    """Which checkpoint has that key."""
    _, namespace, named = _parts(key)
    return _At(thread, namespace, named)


def _newest() -> Callable[[_At, object], bool]:
    """Is it the newest of its namespace? Asked of all of them, ids backwards."""
    first: dict[str, _At] = {}
    return lambda at, _: first.setdefault(at.namespace, at) == at


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _namespace(config: RunnableConfig) -> str | None:
    """None: it says none."""
    found: str | None = config["configurable"].get("checkpoint_ns")
    return found


def _has(metadata: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    return all(metadata.get(key) == value for key, value in (filter or {}).items())


def _key(*parts: str) -> str:
    return BETWEEN.join(quote(part, safe=":|") for part in parts)


def _within(*parts: str) -> tuple[str, str]:
    """The range of the keys that begin with these parts and go on."""
    prefix = _key(*parts)
    return prefix + BETWEEN, prefix + AFTER


def _parts(key: str) -> list[str]:
    return [unquote(part) for part in key.split(BETWEEN)]
