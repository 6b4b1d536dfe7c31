"""The store: one file, opened; what an operator may ask of it and do to it."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from fencepost import _inspect
from fencepost._aiostore import AsyncStore
from fencepost._atexit import unclosed
from fencepost._binding import pack
from fencepost._binding.calls import FP, Core
from fencepost._checks import flag, identity, name_bytes, path_bytes, several, shown, whole
from fencepost._file import File
from fencepost._surroundings import danger, surroundings
from fencepost._workflow.runfile import RunLists
from fencepost.codec import JSON, Codec
from fencepost.errors import InvalidArgument
from fencepost.policies import declared
from fencepost.queues import Queue
from fencepost.spans import gap_us, moment_us, seconds, span_us
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
    Surroundings,
)

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import TypeForm, Unpack

__all__ = ["Store", "open"]

T = TypeVar("T")

REAL_CLOCK: Final = -1
ANY_GENERATION: Final = -1
PURGED_MAX: Final = 10_000  # rows of one purge, as in csrc/base.h
Durability = Literal["full", "normal"]
DURABILITIES: Final = ("full", "normal", "none")  # as the core counts; the last is for the kit


class Store(RunLists, AbstractContextManager["Store"]):
    """
    One open file, made by `fencepost.open()`; for all threads of the process.

    Every method raises `Busy` when its turn does not come within the store's busy time-out,
    `Closed` after `close()`, `ForkedHandle` in a child of a fork, `StorageError` when the disk or
    the file fails, and `InvalidArgument` in a thread that has a transaction of this store open and
    does not pass it as `tx=`.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self.path = file.path
        unclosed.add(self)

    def __repr__(self) -> str:
        return f"<Store {self.path}>"

    @property
    def aio(self) -> AsyncStore:
        """The same, awaitable."""
        return AsyncStore(self)

    @overload
    def queue(self, name: str, /, **policy: Unpack[Policy]) -> Queue[Any]: ...
    @overload
    def queue(self, name: str, type: type[T], /, **policy: Unpack[Policy]) -> Queue[T]: ...
    @overload
    def queue(self, name: str, type: TypeForm[T], /, **policy: Unpack[Policy]) -> Queue[T]: ...
    def queue(self, name: str, type: Any = Any, /, **policy: Unpack[Policy]) -> Queue[Any]:
        """
        A queue of this file; made at its first use. What `policy` does not say stays as the file
        has it, or begins as that of a bulk queue: no outcomes kept, not addressed, not listed.
        """
        return Queue(declared(name, policy), type, bound=self._file)

    def transaction(self, *, timeout: Span = 5) -> AbstractContextManager[Transaction]:
        """
        Begin a transaction: your SQL, and all calls that get it as `tx=`, in one commit at the end
        of the block; nothing of it if the block raises, or if the commit does.

        Waits up to `timeout` seconds for its turn: `Busy` names the holder. One that is held for
        longer than that is logged. It belongs to the thread and task that began it.
        """
        return transaction(self._file, timeout)

    # ---- looking ---------------------------------------------------------------------------------

    def messages(
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
        """
        One page of the messages in a state, up to 200: those in line in its order, queue by queue;
        ended ones by when they ended, the newest first. `since` (included) and `before` (excluded)
        bound the due moment, or the end; `kind` is a job's name, `failure` how it failed last.

        `Page.next` is the `after=` of the next page. A page may be short, even empty, with more
        behind it. What is done in a queue that is not `listed` is not shown.
        """
        unwrap(self._file, None)
        return _inspect.page(
            self._file,
            state,
            queue=queue,
            lane=lane,
            kind=kind,
            failure=failure,
            since=since,
            before=before,
            after=after,
            limit=limit,
        )

    def message(self, id: int, /) -> Message | None:
        """
        The message, or None if there is none. `InvalidArgument` for one on a bulk queue that is
        not at its first place: those can be found in the line only.
        """
        found = self._file.core.get(unwrap(self._file, None), identity(id))
        return next(_inspect.messages(self._file, found), None)

    def content(self, id: int, /) -> Content:
        """
        What the message says and what came of it, as bytes. Headers that cannot be read are shown
        under the one name "fencepost-unreadable". Raises `Gone`.
        """
        unwrap(self._file, None)
        found = self._file.core.content(identity(id))
        (lengths,) = pack.records(found)
        (body, headers, result, _progress), _ = pack.parts(found.blob, 0, lengths)
        return Content(body or b"", _inspect.headers(headers), result)

    def stats(self) -> dict[str, Any]:
        """
        Counts by queue and in all, and how it goes: `oldest_age` is the seconds for which the
        first message in line has been due, `next_due_in` those until the next one is, `lapsed` how
        many leases ran out and were not taken over yet; of an inbox `dedupe_window`, for how many
        seconds after its end a message's id answers.
        """
        unwrap(self._file, None)
        told = _inspect.stats(self._file)
        return _inspect.with_windows(self._file, told)

    def check(self, *, full: bool = False) -> list[str]:
        """What is wrong with the file, a sentence each; empty: healthy. `full`: integrity, too."""
        unwrap(self._file, None)
        at, sentences = 0, [words for words in [danger(self._file.core)] if words]
        found = self._file.core.check(full=flag(full, "full"))
        for lengths in pack.records(found):
            parts, at = pack.parts(found.blob, at, lengths)
            sentences += [(part or b"").decode("utf-8", "replace") for part in parts]
        return sentences

    def surroundings(self) -> Surroundings:
        """Other copies of SQLite in this process, how they are kept out, and what is advised."""
        unwrap(self._file, None)
        return surroundings(self._file.core)

    # ---- doing -----------------------------------------------------------------------------------

    def replay(
        self,
        messages: Iterable[Message],
        /,
        *,
        delay: Span = 0,
        rate: float | None = None,
        note: str = "",
        apply: bool = True,
    ) -> list[Replayed]:
        """
        Put dead or unknown messages back in line, due after `delay` seconds, at `rate` a second.

        What is dead begins at its first attempt again; what is unknown goes on counting, and has
        one attempt more if they were used up: only you can know that it did not arrive.
        What was replayed since it was listed is "superseded". `apply=False` says what would happen.
        A `note` is their `failure` of kind "replayed" until they fail again, or end.
        """
        wanted, pairs = self._named(messages)
        spans = span_us(delay, "delay"), 0 if rate is None else gap_us(rate)
        said = name_bytes(note, "note")
        answers = self._file.core.replay(pairs, *spans, note=said, apply=flag(apply, "apply"))
        told = zip(wanted, answers, strict=True)
        return [Replayed(message.id, _inspect.REPLAYED[answer]) for message, answer in told]

    def confirm(self, messages: Iterable[Message], /, *, note: str = "") -> int:
        """
        Unknown messages have arrived: they are done; how many were unknown, and not dealt with
        since they were listed.

        `note`, up to 1000 bytes, is kept as the text of their `failure`, whose kind is then
        "confirmed". A lane that halted for one of them goes on.
        """
        _, pairs = self._named(messages)
        return self._file.core.confirm(pairs, name_bytes(note, "note")).count(FP.DONE)

    def cancel(self, messages: Iterable[Message], /) -> int:
        """
        Take messages out of the line, pending or leased; how many were. A leased one's holder finds
        its lease lost. `InvalidArgument` if some are on a bulk queue and have moved: those stay.
        """
        ids = [message.id for message in several(messages, "messages", Message)]
        answers = self._file.core.cancel(unwrap(self._file, None), ids)
        if FP.INVALID in answers:
            raise InvalidArgument(
                f"message {ids[answers.index(FP.INVALID)]} is on a bulk queue and not at its first"
                " place, where it could be found by its id; the queue would have to be `addressed`"
            )
        return answers.count(FP.DONE)

    def purge(
        self,
        state: State,
        before: datetime,
        *,
        queue: str | None = None,
        limit: int = 1000,
        apply: bool = False,
    ) -> int:
        """
        Forget up to `limit` outcomes that are older than `before`; how many. Counts only, unless
        `apply`.
        """
        unwrap(self._file, None)
        code = _inspect.outcome_state(state)
        before_us = moment_us(before, "before")
        number = 0 if queue is None else self._number(queue)
        whole(limit, "limit", 1, PURGED_MAX)
        return self._file.core.purge(number, code, before_us, limit, apply=flag(apply, "apply"))

    def halted_lanes(self, queue: str, /, *, after: str = "", limit: int = 50) -> list[Halted]:
        """
        The lanes of a queue that stand still (`on_dead="halt"`), by name, up to 200; those behind
        the one named `after`.
        """
        unwrap(self._file, None)
        return _inspect.halted(self._file, self._number(queue), after, limit)

    def release_lane(self, queue: str, lane: str, /) -> bool:
        """Let a lane go on that halted behind a dead head. False: it did not stand still."""
        unwrap(self._file, None)
        return self._file.core.release_lane(self._number(queue), name_bytes(lane, "lane"))

    def set_policy(self, queue: str, /, **policy: Unpack[Policy]) -> None:
        """
        Change what a queue does that is there, of jobs or of anything: `concurrency=4, rate=10`.
        What is not said stays. It holds at once, for all. `InvalidArgument`: no such queue.
        """
        unwrap(self._file, None)
        number, stored = self._file.core.queue_find(None, name_bytes(queue, "a queue's name"))
        wanted = declared(queue, policy, stored["profile"])
        if not number:
            raise InvalidArgument(f"there is no queue {queue!r} in {self.path}")
        fields = dict(wanted.fields)
        self._file.core.queue_define(None, queue.encode(), wanted.profile, fields)

    def pause(self, queue: str, /) -> None:
        """Nobody is handed anything from this queue until `resume`. Enqueueing goes on."""
        unwrap(self._file, None)
        self._file.core.queue_pause(None, self._number(queue), paused=True)

    def resume(self, queue: str, /) -> None:
        """Undo `pause`."""
        unwrap(self._file, None)
        self._file.core.queue_pause(None, self._number(queue), paused=False)

    def backup(self, dest: StrPath, /, *, overwrite: bool = False) -> None:
        """
        Copy the file as it is now, while everybody goes on; `restore` is the way back.

        The copy gets its name when it is whole and on the disk, readable by its owner only. It may
        be opened like any store, but its counter is not raised: to go on with it, restore it.
        `InvalidArgument` if `dest` is there already, unless `overwrite`; and in any case if it is
        the file itself, or a -wal, -shm or -journal stands beside it.
        """
        unwrap(self._file, None)
        self._file.core.backup(path_bytes(dest), over=flag(overwrite, "overwrite"))

    def _named(self, messages: Iterable[Message]) -> tuple[list[Message], array[int]]:
        unwrap(self._file, None)
        wanted = several(messages, "messages", Message)
        return wanted, pack.pairs((message.id, message.generation) for message in wanted)

    def _number(self, queue: str) -> int:
        number = self._file.find(queue)
        if not number:
            raise InvalidArgument(f"there is no queue {queue!r} in {self.path}")
        return number

    # ---- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Waits for calls under way; those that come later raise `Closed`. Again: nothing."""
        unwrap(self._file, None)
        self._file.core.close()
        self._file.bridge.dismiss()
        unclosed.discard(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        self.close()


def open(  # noqa: A001 - like the builtin, it is called by its module's name or not at all
    path: StrPath,
    *,
    create: bool = True,
    wal: bool = False,
    network: bool = False,
    foreign_keys: bool = False,
    durability: Durability = "full",
    codec: Codec = JSON,
    busy_timeout: Span = 30,
) -> Store:
    """
    Open the file, which may be the application's own database; make it, and the folders above it.

    Without `create` neither file nor tables are made, and where they are missing that is an error.
    `wal` lets an existing database be turned to WAL, which lasts; `network` allows a file system
    whose locks cannot be trusted, so that a dead worker is known by its leases only; `foreign_keys`
    enforces the application's own in its own SQL; `durability="normal"` may lose the last commits
    in a power cut. `busy_timeout` is how many seconds each call waits for its turn, in slices of
    half a second; 0 waits for one slice.

    Raises `StorageError`, `NewerSchema`, `InvalidArgument` for what cannot be trusted as a store.
    """
    return opened(
        path,
        create=create,
        wal=wal,
        network=network,
        foreign_keys=foreign_keys,
        durability=durability,
        codec=codec,
        busy_timeout=busy_timeout,
    )


def opened(
    path: StrPath,
    *,
    create: bool = True,
    wal: bool = False,
    network: bool = False,
    foreign_keys: bool = False,
    durability: str = "full",
    codec: Codec = JSON,
    busy_timeout: Span = 30,
    hand: datetime | None = None,
) -> Store:
    """`open`, and for the testing kit the moment at which its hand-turned clock begins."""
    if durability not in DURABILITIES[: 2 if hand is None else 3]:
        raise InvalidArgument(f'durability is "full" or "normal", not {shown(durability)}')
    if not callable(getattr(codec, "encode", None)) or not callable(getattr(codec, "decode", None)):
        raise InvalidArgument(f"codec has encode and decode, and {shown(codec)} has not")
    encoded = path_bytes(path)
    core = Core(
        encoded,
        create=flag(create, "create"),
        wal=flag(wal, "wal"),
        network=flag(network, "network"),
        foreign_keys=flag(foreign_keys, "foreign_keys"),
        normal=DURABILITIES.index(durability),
        hand_us=REAL_CLOCK if hand is None else moment_us(hand, "now"),
        patience=seconds(span_us(busy_timeout, "busy_timeout")),
    )
    return Store(File(core, os.fsdecode(encoded), codec, by_hand=hand is not None))
