"""The worker: what becomes of a message whose handler returns or raises."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import (
    App,
    Backoff,
    Batch,
    Context,
    JobFailed,
    PermanentError,
    RetryLater,
)
from fencepost._verdicts import backoff_us
from fencepost.codec import JSON
from harness_worker import AT_ONCE, failure, until

# ---- results -------------------------------------------------------------------------------------


def test_a_result_comes_back_as_its_annotation_says(app: App) -> None:
    """Plain functions and coroutines; nothing stays nothing; what is not annotated is plain."""
    moment = datetime(2026, 3, 1, tzinfo=timezone.utc)

    @app.job
    def plain(at: datetime) -> list[datetime]:
        return [at, at]

    @app.job
    async def awaited(at: datetime) -> dict[str, datetime]:
        await asyncio.sleep(0)
        return {"at": at}

    @app.job
    def nothing() -> None: ...

    @app.job
    def untold(n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return (n, n)

    with app.worker():
        assert plain.enqueue(moment).result(30) == [moment, moment]
        assert awaited.enqueue(moment).result(30) == {"at": moment}
        assert nothing.enqueue().result(30) is None
        assert untold.enqueue(1).result(30) == [1, 1]


def test_a_result_that_cannot_be_encoded_is_a_dead_letter(app: App) -> None:
    """To run it again would end the same way."""

    @app.job
    def bad() -> Any:
        return object()

    with app.worker(), pytest.raises(JobFailed) as failed:
        bad.enqueue().result(30)
    assert failed.value.failure.kind == "unencodable"


def test_watching_shows_each_change_to_the_end(app: App) -> None:
    """Progress included, the newest wins; the last status has ended."""
    seen = threading.Event()

    @app.job(context=True)
    def work(ctx: Context) -> None:
        ctx.progress("old")
        ctx.progress({"done": 3})
        assert seen.wait(30)

    handle = work.enqueue()
    statuses = []
    with app.worker():
        for status in handle.watch():
            statuses.append(status)
            if status.progress == {"done": 3}:
                seen.set()
    assert seen.is_set()
    assert statuses[-1].state == "done"
    assert [status.state for status in statuses].count("done") == 1


# ---- failures ------------------------------------------------------------------------------------


def test_a_failure_is_tried_again_until_the_attempts_are_used_up(app: App) -> None:
    """The first run included; then it is dead, and says how it failed last."""
    attempts: list[tuple[int, bool]] = []

    @app.job(max_attempts=3, backoff=AT_ONCE, context=True)
    def fail(ctx: Context) -> None:
        attempts.append((ctx.attempt, ctx.last_attempt))
        raise ValueError(f"no {ctx.attempt}")

    with app.worker(), pytest.raises(JobFailed, match="no 3") as failed:
        fail.enqueue().result(30)
    assert attempts == [(1, False), (2, False), (3, True)]
    assert failed.value.failure == fencepost.Failure("error", "ValueError", "no 3")


def test_a_waiting_retry_shows_its_last_failure(app: App) -> None:
    """Pending again, with one attempt behind it, and due after the job's own back-off."""

    @app.job(backoff=Backoff(3600, 1, 3600, 0))
    def fail() -> None:
        raise ValueError("no")

    handle = fail.enqueue()
    with app.worker():
        until(lambda: handle.status().failure)
    status = handle.status()
    assert (status.state, status.attempt) == ("pending", 1)
    assert status.due is not None
    message = app.store.message(handle.id)
    assert message is not None
    assert (status.due - message.enqueued_at).total_seconds() >= 3600


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermanentError("no such order", code="missing"), "missing"),
        (PermanentError("no such order"), "PermanentError"),
        (KeyError("no such order"), "KeyError"),
    ],
)
def test_a_permanent_error_is_a_dead_letter_at_once(app: App, error: Exception, code: str) -> None:
    """What the handler says is permanent, and what the job declares to be."""

    @app.job(permanent=(LookupError,))
    def fail() -> None:
        raise error

    handle = fail.enqueue()
    with app.worker(), pytest.raises(JobFailed, match="no such order"):
        handle.result(30)
    assert handle.status().attempt == 1
    assert failure(handle).code == code


def test_later_uses_no_attempt(app: App) -> None:
    """However often it is said."""
    attempts: list[int] = []

    @app.job(max_attempts=1, context=True)
    def shy(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        if len(attempts) < 4:
            raise RetryLater("not now", delay=0)
        return len(attempts)

    with app.worker():
        assert shy.enqueue().result(30) == 4
    assert attempts == [1, 1, 1, 1]


def test_later_for_the_whole_queue_holds_all_of_it(app: App) -> None:
    """The second message is not handed out; another queue goes on."""
    ran: list[int] = []

    @app.job
    def limited(n: int) -> None:
        ran.append(n)
        raise RetryLater(delay=3600, whole_queue=True)

    @app.job(queue="other")
    def free() -> None: ...

    first = limited.enqueue(1)
    with app.worker(threads=1):
        until(lambda: failure(first) if first.status().failure else None)
        limited.enqueue(2)
        free.enqueue().result(30)
        free.enqueue().result(30)
    assert ran == [1]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_would_end_a_program_ends_only_its_message(app: App, error: BaseException) -> None:
    """A handler that calls sys.exit() has failed; the worker goes on."""

    @app.job(max_attempts=1)
    def leave() -> None:
        raise error

    @app.job(max_attempts=1)
    async def leave_too() -> None:
        raise error

    @app.job
    def stay() -> int:
        return 7

    with app.worker():
        for handle in (leave.enqueue(), leave_too.enqueue()):
            with pytest.raises(JobFailed):
                handle.result(30)
            assert failure(handle).code == type(error).__name__
        assert stay.enqueue().result(30) == 7


def test_a_failure_says_at_most_so_much_and_the_log_says_nothing_of_it(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """A thousand bytes, cut between two characters; the log has the type and the place."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit

    @app.job(max_attempts=1)
    def fail(secret: str) -> None:
        raise ValueError(secret)

    @app.job(max_attempts=1)
    def mute() -> None:
        raise Mute

    handle, other = fail.enqueue("x" + "é" * 700), mute.enqueue()
    with caplog.at_level(logging.DEBUG), app.worker():
        for ended in (handle, other):
            with pytest.raises(JobFailed):
                ended.result(30)
    assert failure(handle).text == "x" + "é" * 499
    assert "Mute" in (failure(other).code or "")
    assert "raised ValueError" in caplog.text
    assert "test_worker.py" in caplog.text
    assert "éé" not in caplog.text


def test_a_back_off_grows_to_its_cap_and_no_further() -> None:
    """Also where the power is beyond what a float can say; jitter goes to both sides."""
    steady = Backoff(5, 2, 300, 0)
    assert [backoff_us(steady, n) for n in (1, 2, 3)] == [5_000_000, 10_000_000, 20_000_000]
    assert backoff_us(Backoff(5.0, 2.0, 300.0, 0.0), 1_000_000) == 300_000_000
    spread = [backoff_us(Backoff(10, 1, 300, 0.2), 1) for _ in range(200)]
    assert 8_000_000 <= min(spread) < 10_000_000 < max(spread) <= 12_000_000


def test_an_unknown_name_is_put_off_without_using_an_attempt(app: App, path: Path) -> None:
    """A message of code that is not deployed here yet: it waits for it, and says so."""
    newer = App(path)

    @newer.job(max_attempts=1)
    def tomorrow() -> None: ...

    @app.job
    def today() -> int:
        return 1

    handle = tomorrow.enqueue()
    with app.worker():
        until(lambda: handle.status().failure)
        assert today.enqueue().result(30) == 1
    status = handle.status()
    assert (status.state, status.attempt) == ("pending", 0)
    assert failure(handle) == fencepost.Failure(
        "unknown_name", "tomorrow", "no worker knew this name"
    )
    newer.store.close()


def test_a_former_name_is_still_run(app: App, path: Path) -> None:
    """What was enqueued under the alias finds the job under its new name."""
    older = App(path)

    @older.job
    def post() -> int: ...  # type: ignore[empty-body]

    handle = post.enqueue()

    @app.job(aliases=["post"])
    def mail() -> int:
        return 7

    with app.worker():
        assert handle.result(30) == 7
    older.store.close()


def test_the_child_of_a_handler_that_forks_is_no_second_worker(app: App) -> None:
    """Whether it returns or raises, it ends there, and the message is its parent's."""

    @app.job(max_attempts=1)
    def forks(leaves: bool) -> int:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10)  # a child that goes on working is killed by it
            if leaves:
                raise SystemExit
            return 1
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    with app.worker():
        assert [forks.enqueue(leaves).result(30) for leaves in (True, False)] == [0, 0]


def test_what_is_around_a_handler_makes_no_result_of_what_it_raised(app: App) -> None:
    app.around(lambda ctx: suppress(ValueError))

    @app.job(max_attempts=1)
    def fail() -> int:
        raise ValueError("no")

    @app.job(max_attempts=1)
    async def fail_too() -> int:
        raise ValueError("no")

    with app.worker():
        for handle in (fail.enqueue(), fail_too.enqueue()):
            with pytest.raises(JobFailed, match="no"):
                handle.result(30)
            assert failure(handle).code == "ValueError"


@pytest.mark.parametrize("kind", [ZeroDivisionError, SystemExit])
def test_a_codec_that_breaks_costs_an_attempt_and_not_the_lease(
    path: Path, kind: type[BaseException]
) -> None:
    """It is no PayloadError, so the payload may be sound: a job and a batch are tried again."""
    broken = ["job", 2, 3]

    class Codec:
        def encode(self, value: object, /) -> bytes:
            return JSON.encode(value)

        def decode(self, body: bytes, type: Any, /) -> Any:
            if broken:
                del broken[0]
                raise kind
            return JSON.decode(body, type)

    app = App(path, codec=Codec())
    queue, seen = app.queue("q", int, backoff=AT_ONCE), set()

    @queue.handler(batch=2)
    def take(batch: Batch[int]) -> None:
        seen.update(batch.payloads)

    @app.job(backoff=AT_ONCE)
    def double(n: int) -> int:
        return 2 * n

    with app.store:
        handle = double.enqueue(21)
        queue.enqueue_many([1, 2])
        with app.worker():
            assert handle.result(20) == 42
            until(lambda: seen == {1, 2})
