"""
Jobs: functions whose calls are messages.

A Job is not callable, so that nobody runs what they meant to queue; `job.fn` is the function.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from fencepost import _inspect
from fencepost._binding.calls import FP
from fencepost._binding.requests import Cancelling
from fencepost._binding.results import NOWHERE, Result
from fencepost._checks import flag, identity, several
from fencepost._door.inserts import Door
from fencepost._enqueue import Entry, entry, put_entries, sending
from fencepost._file import File
from fencepost._function import Function, Home
from fencepost._handles import Status, Watched, progress_of
from fencepost._plans import End, Plan, Write, here
from fencepost._verdicts import QUEUES_OWN
from fencepost.aio import AsyncHandle, AsyncJob
from fencepost.errors import Cancelled, Gone, InvalidArgument, JobFailed
from fencepost.policies import Declaration, declared
from fencepost.spans import span_us
from fencepost.transactions import Tx, entered, unwrap
from fencepost.values import Failure, JobPolicy, Options, Span

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["Call", "Handle", "Job", "Status"]

P = ParamSpec("P")
R = TypeVar("R")

QUEUE: Final = "default"


class Call(Generic[R]):
    """The bound arguments of one call, with the options of the job that bound them."""

    __slots__ = ("_entry", "_name", "_options")

    def __init__(self, name: str, bound: Entry, options: Options) -> None:
        self._name = name
        self._entry = bound
        self._options = options


class Job(Function, Generic[P, R]):
    """A function that is called by putting a message in a queue. Made by `App.job`."""

    def __init__(
        self, fn: Callable[..., Any], policy: JobPolicy, home: Home, *, context: bool
    ) -> None:
        self._context = flag(context, "context")
        super().__init__(
            fn, policy, home, what="a job", context=context, queue=QUEUE, attempts=QUEUES_OWN
        )
        self._declaration = job_queue(self._queue)
        self._options: Options = {}

    @property
    def aio(self) -> AsyncJob[P, R]:
        """The same, awaitable."""
        return AsyncJob(self)

    def options(self, **options: Unpack[Options]) -> Self:
        """The same job, enqueued with these options; those of before that are not named stay."""
        other = copy.copy(self)
        other._options = {**self._options, **options}
        entry(b"", other._options)
        return other

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """
        Put one call in, durably; in `tx`, with its commit.

        Raises `InvalidArgument` for arguments that do not fit the function, `PayloadError`,
        `Conflict`, `QueueFull`, `Busy`.
        """
        return here(self._enqueue_many([self.call(*args, **kwargs)]))[0]

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """One call for `enqueue_many`. The arguments are encoded here. Raises as `enqueue`."""
        body = self._arguments.encode(args, kwargs)
        if not self._options:
            return Call(self.name, Entry(body, priority=self._priority), self._options)
        options: Options = {"priority": self._priority, **self._options}
        return Call(self.name, entry(body, options), self._options)

    def enqueue_many(self, calls: Iterable[Call[R]], /) -> list[Handle[R]]:
        """
        Put many calls in, in their order: one commit, all or none; a handle for each.

        Where an equal one was there under its key, the handle is of that one, and says
        `created=False`. `tx` and `wait` are those of this job's own options.
        """
        return here(self._enqueue_many(calls))

    def _enqueue_many(self, calls: Iterable[Call[R]]) -> Plan[list[Handle[R]]]:
        bound = several(calls, "calls", Call)
        for call in bound:
            if call._name != self.name:
                raise InvalidArgument(f"a call of {call._name} is none of {self.name}")
        tx = self._options.get("tx")
        file = self._file(tx)
        put = put_entries(
            file,
            [call._entry for call in bound],
            kind=self.name,
            max_attempts=self._max_attempts,
        )
        answers = yield from sending(
            file,
            self._declaration,
            put,
            kind=self.name,
            tx=entered(file, tx),
            wait_us=span_us(self._options.get("wait", 0), "wait"),
        )
        return [
            Handle(self, file, answer.id, created=answer.created, key=_key(call._options))
            for call, answer in zip(bound, answers, strict=True)
        ]

    def handle(self, id: int, /) -> Handle[R]:
        """The handle of a message that was enqueued before. Looks at nothing: `key` is None."""
        return Handle(self, self._file(None), identity(id), created=False, key=None)


class Handle(Watched, Generic[R]):
    """One message of a job: how it is, and what came of it."""

    def __init__(
        self, job: Job[Any, R], file: File, id: int, *, created: bool, key: str | None
    ) -> None:
        self.id = id
        self.created = created  # False: an equal one was there
        self.key = key
        self._job = job
        self._file = file

    def __repr__(self) -> str:
        return f"<Handle {self.id} of {self._job.name}>"

    @property
    def aio(self) -> AsyncHandle[R]:
        """The same, awaitable."""
        return AsyncHandle(self)

    def result(self, timeout: Span | None = None) -> R:
        """
        What the function returned, decoded by its annotation; waits for it.

        Raises `JobFailed` when it is dead, `Cancelled`, the built-in `TimeoutError` after `timeout`
        seconds, and `Gone` once retention has taken it.
        """
        return here(self._result(timeout))

    def cancel(self, *, tx: Tx | None = None) -> bool:
        """
        Take it out of the line, whether it waits or runs; False if it had ended before.

        A handler that runs for it finds `ctx.cancelled` set, and its result is refused.
        """
        return here(self._cancel(tx))

    # ---- the same as plans -----------------------------------------------------------------------

    def _cancel(self, tx: Tx | None) -> Plan[bool]:
        where = entered(self._file, tx)
        if isinstance(where, Door):
            return where.cancel(self.id)
        answers = yield Write(self._file, where, Cancelling([self.id]))
        return bool(answers[0] == FP.DONE)

    def _result(self, timeout: Span | None) -> Plan[R]:
        unwrap(self._file, None)
        timeout_us = None if timeout is None else span_us(timeout, "timeout")
        ended = yield End(self._file, self.id, timeout_us)
        if ended is None:
            raise TimeoutError(f"message {self.id} of {self._job.name} has not ended in time")
        return self._outcome(ended)

    def _look(self) -> tuple[Status, bool]:
        message = next(_inspect.messages(self._file, self._file.core.get(None, self.id)), None)
        if message is None:
            raise self._gone()
        progress = progress_of(self._file, self.id, self._job._home.codec)
        ended = message.state not in ("pending", "leased")
        return Status(message.state, message.attempt, message.due, message.failure, progress), ended

    def _outcome(self, ended: Result) -> R:
        if ended.state == NOWHERE:
            raise self._gone()
        state = _inspect.TOLD[ended.state]
        if state == "done":
            if ended.result is None:  # None is not written
                return None  # type: ignore[return-value]
            decoded: R = self._job._home.codec.decode(ended.result, self._job._arguments.returns)
            return decoded
        if state == "cancelled":
            raise Cancelled(f"message {self.id} of {self._job.name} was cancelled")
        failure = _inspect.failure(*ended.failure) or Failure("error", None, "")
        raise JobFailed(f"{self._job.name}: {failure.text or failure.kind}", failure=failure)

    def _gone(self) -> Gone:
        return Gone(f"message {self.id} of {self._job.name}: retention took it, or it never was")


def job_queue(name: str) -> Declaration:
    """The queue of this name as jobs use it: addressed and listed, outcomes are kept."""
    return declared(name, {}, FP.PROFILE_JOB)


def _key(options: Options) -> str | None:
    return options.get("key") or options.get("unique")
