"""
What a workflow's function is given: the steps of its run, by their names.

    async def refund(run: Run, order: int) -> str:
        await run.sleep("cool off", timedelta(hours=1))
        who = await run.wait("approved by", str)
        return await run.step("pay back", pay_back, order, who)

A name is once in a run; in a loop it has the number in it. What a step came to is recorded under
its name, and the function runs again from its top after each wait: what is recorded is given back.
So between its steps it must do the same each time: what may differ belongs into a step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, overload

from fencepost._checks import function, is_coroutine, shown, whole
from fencepost._enqueue import ATTEMPTS_MAX
from fencepost._workflow import waits
from fencepost._workflow.children import bind, result
from fencepost._workflow.history import CHILD, RECEIVE, SIGNAL, SLEEP, STEP, TRANSACT, check_name
from fencepost._workflow.passes import Options, Pass
from fencepost._workflow.roundtrip import returns_of
from fencepost.codec import check_type
from fencepost.errors import InvalidArgument
from fencepost.policies import declared
from fencepost.spans import MOMENT_MAX, moment_us, seconds, span_us
from fencepost.transactions import Transaction
from fencepost.values import Backoff, Span

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from fencepost.jobs import Job
    from fencepost.workflow import Workflow

__all__ = ["Run"]

P = ParamSpec("P")
T = TypeVar("T")

RECEIVED: Final = 100  # messages that one `receive` takes by default
RECEIVED_MAX: Final = 10_000
UNSAID: Final[Any] = object()


class Run:
    """
    One run of a workflow, in one of its passes.

    `attempt` counts the passes since it last got to a wait; `token` is the fence: it only rises in
    this file, so who is told it can refuse an older one.
    """

    def __init__(self, id: str, attempt: int, token: int, state: Pass) -> None:
        self.id = id
        self.attempt = attempt
        self.token = token
        self._pass = state
        self._options = Options()

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    @property
    def cancelled(self) -> bool:
        """It was cancelled, or its worker stops: what is under way should come to its end."""
        return self._pass.withdrawn or self._pass.ledger.stopping()

    def key(self, name: str, /) -> str:
        """The idempotency key of a step: the same on each attempt, and no other step's."""
        check_name(name, "the name of a step")
        return f"{self.id}:{name}"

    def options(
        self,
        *,
        max_attempts: int = UNSAID,
        backoff: Backoff = UNSAID,
        timeout: Span = UNSAID,
        returns: Any = UNSAID,
    ) -> Run:
        """
        The same run, for steps that are tried up to `max_attempts` times before they raise, with
        `backoff` between; that may take `timeout` seconds each time (a coroutine is cancelled then,
        of a plain function the result is refused); and that return what `returns` says instead of
        what their annotation says.
        """
        said = self._options
        if max_attempts is not UNSAID:
            whole(max_attempts, "max_attempts", 1, ATTEMPTS_MAX)
            said = said._replace(max_attempts=max_attempts)
        if backoff is not UNSAID:
            declared("", {"backoff": backoff})
            said = said._replace(backoff=Backoff(*backoff))
        if timeout is not UNSAID:
            timeout_us = span_us(timeout, "timeout")
            if timeout_us == 0:
                raise InvalidArgument("timeout is 0: it would be over at once")
            said = said._replace(timeout=seconds(timeout_us))
        if returns is not UNSAID:
            check_type(self._pass.codec, returns)
            said = said._replace(returns=returns, typed=True)
        other = Run(self.id, self.attempt, self.token, self._pass)
        other._options = said
        return other

    # ---- what is done, and recorded --------------------------------------------------------------

    @overload
    def step(
        self,
        name: str,
        fn: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """
        Call `fn`, and record what it returns: once that is in the file, it never runs again.

        A plain function runs in a thread. If the process dies before the record, it runs again, so
        give the outside world `run.key(name)`. What it raises is raised here; if the workflow
        catches that and goes on, it is recorded, too. `PayloadError` for a result that does not
        survive the codec, `InvalidArgument` for a name that was used.
        """
        call, options = self._bound(fn, args, kwargs)
        record = self._pass.ask(name, STEP)
        return self._pass.step(name, record, call, options)

    def transact(
        self,
        name: str,
        fn: Callable[Concatenate[Transaction, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, T]:
        """
        Call `fn(tx, …)` in a transaction of the file that also records the result: its rows, the
        jobs and sends that it puts into `tx`, and the record are one commit, and happen once.

        A plain function; it runs in a thread, and is the file's one writer meanwhile.
        """
        call, options = self._bound(fn, args, kwargs, transaction=True)
        record = self._pass.ask(name, TRANSACT)
        return self._pass.transact(name, record, call, options)

    def child(
        self,
        name: str,
        target: Job[P, T] | Workflow[P, T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, T]:
        """
        Start a job or a workflow, in the commit that records it, and wait for its result.

        Costs nothing while it waits. A child that fails raises `JobFailed`, one that was cancelled
        `Cancelled`. Cancelling this run cancels its children.
        """
        start, returns = bind(target, self.key(name), args, kwargs)
        record = self._pass.ask(name, CHILD)
        read = partial(result, name=name, codec=self._pass.codec, returns=returns)
        return waits.child(self._pass, name, record, start, read)

    # ---- what is waited for ----------------------------------------------------------------------

    def sleep(self, name: str, span: Span | datetime, /) -> Coroutine[Any, Any, None]:
        """
        Until a span is over, or until a moment. The deadline is recorded when it is first come to,
        and never moves. Costs nothing, and survives a reboot.
        """
        if isinstance(span, datetime):
            moment_us(span, "the end of a sleep")
        else:
            span_us(span, "the span of a sleep")
        record = self._pass.ask(name, SLEEP)
        return waits.sleep(self._pass, name, record, partial(self._until_us, span))

    @overload
    def wait(
        self, name: str, type: type[T], /, *, timeout: Span | None = None
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def wait(
        self, name: str, type: TypeForm[T], /, *, timeout: Span | None = None
    ) -> Coroutine[Any, Any, T]: ...
    def wait(self, name: str, type: Any, /, *, timeout: Span | None = None) -> Any:
        """
        The value of `handle.signal(name, …)`, whether it came before or comes later. The built-in
        `TimeoutError` if it does not come within `timeout` seconds; that is recorded, and a signal
        that comes later is told that it was not the first.
        """
        check_type(self._pass.codec, type)
        timeout_us = None if timeout is None else span_us(timeout, "timeout")
        record = self._pass.ask(name, SIGNAL)
        return waits.wait(self._pass, name, record, type, timeout_us)

    @overload
    def receive(
        self, name: str, type: type[T], /, *, limit: int = RECEIVED, timeout: Span | None = None
    ) -> Coroutine[Any, Any, list[T]]: ...
    @overload
    def receive(
        self, name: str, type: TypeForm[T], /, *, limit: int = RECEIVED, timeout: Span | None = None
    ) -> Coroutine[Any, Any, list[T]]: ...
    def receive(
        self, name: str, type: Any, /, *, limit: int = RECEIVED, timeout: Span | None = None
    ) -> Any:
        """
        What `handle.send(…)` brought, in order, each message once: what came since the `receive`
        before this one, up to `limit`. Waits for the first; an empty list after `timeout` seconds.
        """
        check_type(self._pass.codec, type)
        whole(limit, "limit", 1, RECEIVED_MAX)
        timeout_us = None if timeout is None else span_us(timeout, "timeout")
        record = self._pass.ask(name, RECEIVE)
        return waits.receive(self._pass, name, record, type, limit, timeout_us)

    async def gather(self, *steps: Awaitable[T]) -> list[T]:
        """
        Steps and waits side by side, each to its end; their results in this order. If one fails,
        the others are still finished and recorded, and then the first failure is raised.
        """
        return await waits.gather(self._pass, steps)

    # ---- what is said ----------------------------------------------------------------------------

    def progress(self, value: object, /) -> None:
        """
        Say how far it is, for `WorkflowHandle.status()`. The newest wins; a few are written in a
        second. `PayloadError` if the value cannot be encoded.
        """
        self._pass.progress = self._pass.codec.encode(value)

    def patched(self, name: str, /) -> bool:
        """
        Whether this run goes the new way at a change of the code: True in runs that come here for
        the first time, which is recorded; False in those that had gone on from here before.
        """
        check_name(name, "the name of a patch")
        return self._pass.patched(name)

    # ---- the rest --------------------------------------------------------------------------------

    def _bound(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        transaction: bool = False,
    ) -> tuple[Callable[..., Any], Options]:
        function(fn, "what a step calls")
        options = self._options
        if not options.typed:
            options = options._replace(returns=returns_of(fn, self._pass.codec))
        if transaction:
            if is_coroutine(fn):
                raise InvalidArgument(f"transact calls a plain function, and {shown(fn)} is none")
            return partial(_with_transaction, fn, args, kwargs), options
        return partial(fn, *args, **kwargs), options

    def _until_us(self, span: Span | datetime) -> int:
        """The end of a sleep that begins now, in store time."""
        ledger = self._pass.ledger
        if isinstance(span, datetime):
            left_us = moment_us(span, "the end of a sleep") - ledger.wall_us()
        else:
            left_us = span_us(span, "the span of a sleep")
        return min(max(0, ledger.now_us() + left_us), MOMENT_MAX)


def _with_transaction(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], tx: Transaction
) -> Any:
    return fn(tx, *args, **kwargs)
