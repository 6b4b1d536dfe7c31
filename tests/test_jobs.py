"""Jobs without a worker: what is enqueued, and what a handle says about it."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import fencepost
from fencepost import App, Conflict, Gone, InvalidArgument, PayloadError, Store

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Parcel:
    weight: Decimal
    colour: Colour


class Opaque:
    """Nothing that JSON could say."""


def body(app: App, handle: fencepost.Handle[Any]) -> bytes:
    return app.store.content(handle.id).body


# ---- arguments -----------------------------------------------------------------------------------


def test_a_job_is_not_callable_and_fn_is_the_function(app: App) -> None:
    """Nobody runs what they meant to queue."""

    @app.job
    def add(a: int, b: int = 2) -> int:
        return a + b

    assert not callable(add)
    assert add.fn(1) == 3
    assert add.name == "add"


def test_equal_calls_are_equal_bytes_however_they_are_spelled(app: App) -> None:
    """By position, by name, in any order: one payload, by parameter names, without defaults."""

    @app.job
    def add(a: int, b: int = 2, *, c: int = 3) -> int:
        return a + b + c

    one, two, three = add.enqueue(1, 5, c=7), add.enqueue(c=7, b=5, a=1), add.enqueue(1)
    assert body(app, one) == body(app, two) == b'{"a":1,"b":5,"c":7}'
    assert body(app, three) == b'{"a":1}'

    @app.job
    def move(source: str, to: str) -> None: ...

    four, five = move.enqueue("x", "y"), move.enqueue(to="y", source="x")
    assert body(app, four) == body(app, five) == b'{"source":"x","to":"y"}'


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"x": 2}), ((1,), {"a": 2})]
)
def test_a_call_that_does_not_fit_the_signature_is_refused(
    app: App, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """At the enqueue, in Python's own words; nothing is written."""

    @app.job
    def add(a: int, b: int = 2) -> int:
        return a + b

    with pytest.raises(InvalidArgument, match="add: "):
        add.enqueue(*args, **kwargs)
    assert app.store.stats()["totals"]["pending"] == 0


def test_every_kind_of_parameter_makes_the_way_there_and_back(app: App) -> None:
    """Positional-only, either, *args, keyword-only and **kwargs arrive as they were given."""
    at = datetime(2026, 3, 1, 12, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))

    @app.job
    def take(
        a: Parcel, /, b: bytes, *more: uuid.UUID, day: date = date(2026, 1, 1), **moments: datetime
    ) -> None: ...

    parcel, one = Parcel(Decimal("1.10"), Colour.RED), uuid.UUID(int=7)
    handle = take.enqueue(parcel, b"\0\xff", one, one, at=at)
    assert take._arguments.decode(body(app, handle)) == (
        [parcel, b"\0\xff", one, one],
        {"at": at},
    )


@pytest.mark.parametrize(
    "payload",
    [b"", b"[1]", b'{"a":"x"}', b'{"b":1}', b'{"a":1,"later":2}', b'{"a":1,"b":null}', b"\xff"],
)
def test_what_is_no_call_of_the_function_is_a_payload_error(app: App, payload: bytes) -> None:
    """Also an argument that this code does not know: to leave it out would be another call."""

    @app.job
    def add(a: int, b: int = 2) -> int:
        return a + b

    with pytest.raises(PayloadError):
        add._arguments.decode(payload)


def test_an_argument_that_cannot_be_encoded_is_refused(app: App) -> None:
    """NaN has no word in JSON, and an object of no known kind neither."""

    @app.job
    def keep(value: Any) -> None: ...

    for value in (float("nan"), Opaque()):
        with pytest.raises(PayloadError):
            keep.enqueue(value)


def test_annotations_are_checked_where_the_job_is_declared(app: App) -> None:
    """A type that cannot be decoded, a name that is not there, a context without a parameter."""

    def opaque(value: Opaque) -> None: ...
    def missing(value: Missing) -> None: ...
    def result() -> Opaque: ...  # type: ignore[empty-body]
    def nothing() -> None: ...

    for fn in (opaque, missing, result):
        with pytest.raises(InvalidArgument, match=fn.__name__):
            app.job(fn)
    with pytest.raises(InvalidArgument, match="first parameter"):
        app.job(context=True)(nothing)  # type: ignore[arg-type]


# ---- declaring -----------------------------------------------------------------------------------


def test_a_name_is_unique_in_an_app(app: App) -> None:
    """Names and aliases alike; another queue changes nothing about it."""

    def send() -> None: ...

    app.job(name="mail", aliases=["post"])(send)
    for name in ("mail", "post"):
        with pytest.raises(InvalidArgument, match="already"):
            app.job(name=name, queue="other")(send)


@pytest.mark.parametrize(
    "policy",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"max_attempts": -1},
        {"priority": 128},
        {"permanent": ("ValueError",)},
        {"backoff": (1, 2, 3, 4, 5)},
        {"retries": 3},
        {"queue": 3},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(app: App, policy: Any) -> None:
    """Where it is declared, not where it would have mattered; of a workflow likewise."""

    def send() -> None: ...
    async def run(run: fencepost.Run) -> None: ...

    with pytest.raises(InvalidArgument):
        app.job(**policy)(send)
    with pytest.raises(InvalidArgument):
        app.workflow(**policy)(run)


def test_a_queue_holds_jobs_or_plain_messages(app: App) -> None:
    """Never both, in whichever order they are declared."""

    def send() -> None: ...

    app.queue("plain", int)
    with pytest.raises(InvalidArgument, match="plain messages"):
        app.job(queue="plain")(send)
    app.job(queue="jobs")(send)
    with pytest.raises(InvalidArgument, match="holds jobs"):
        app.queue("jobs", int)


# ---- options -------------------------------------------------------------------------------------


def test_options_make_another_job_and_leave_the_first(app: App) -> None:
    """What is said later wins, what is not said again stays."""

    @app.job(priority=3)
    def send() -> None: ...

    laned = send.options(lane="ann", delay=60)
    sooner = laned.options(delay=0)
    assert app.store.message(send.enqueue().id).lane is None  # type: ignore[union-attr]
    assert app.store.message(sooner.enqueue().id).lane == "ann"  # type: ignore[union-attr]
    later = laned.enqueue().status()
    assert later.due is not None
    assert later.due > app.store.message(send.enqueue().id).due  # type: ignore[union-attr,operator]
    with pytest.raises(InvalidArgument, match="no such option"):
        send.options(after=3)  # type: ignore[call-arg]


def test_a_key_is_answered_with_the_first(app: App) -> None:
    """An equal call is the same message; a different one under the key is a Conflict."""

    @app.job
    def send(to: str) -> None: ...

    keyed = send.options(key="welcome:7")
    first, second = keyed.enqueue("ann"), keyed.enqueue(to="ann")
    assert (first.created, second.created) == (True, False)
    assert first.id == second.id
    assert second.key == "welcome:7"
    with pytest.raises(Conflict) as refused:
        keyed.enqueue("bob")
    assert refused.value.id == first.id


def test_many_calls_are_one_commit_all_or_none(app: App) -> None:
    """Each with its own options; equal keys are answered; one conflict refuses them all."""

    @app.job
    def send(n: int) -> None: ...

    calls = [send.options(key=f"k{n % 3}").call(n % 3) for n in range(4)]
    handles = send.enqueue_many(calls)
    assert [handle.created for handle in handles] == [True, True, True, False]
    assert handles[0].id == handles[3].id
    with pytest.raises(Conflict):
        send.enqueue_many([send.call(9), send.options(key="k0").call(9)])
    assert app.store.stats()["totals"]["pending"] == 3
    assert send.enqueue_many([]) == []


def test_a_call_belongs_to_its_job(app: App) -> None:
    """A call of another job is refused, although its result has the same type."""

    @app.job
    def one() -> None: ...
    @app.job
    def two() -> None: ...

    with pytest.raises(InvalidArgument, match="none of two"):
        two.enqueue_many([one.call()])


def test_a_job_in_a_transaction_is_there_with_its_commit(app: App) -> None:
    """Rolled back, there is none, and its handle says Gone."""

    @app.job
    def send() -> None: ...

    send.enqueue()
    with pytest.raises(ZeroDivisionError), app.transaction() as tx:
        lost = send.options(tx=tx).enqueue()
        raise ZeroDivisionError
    with app.transaction() as tx:
        kept = send.options(tx=tx).enqueue()
    assert kept.status().state == "pending"
    assert kept.id == lost.id  # a number given in a transaction is given again after its rollback
    assert app.store.stats()["totals"]["pending"] == 2


def test_where_a_job_goes(app: App, tmp_path: Path) -> None:
    """To the file of the transaction, else of at(), else of the App; without any it is refused."""
    nowhere = App()

    @nowhere.job
    def send() -> None: ...

    with pytest.raises(InvalidArgument, match="no path"):
        send.enqueue()
    with nowhere.open(tmp_path / "b.db") as other:
        assert send.at(other).enqueue().status().state == "pending"
        with other.transaction() as tx:
            send.options(tx=tx).enqueue()
        assert other.stats()["totals"]["pending"] == 2
        with app.transaction() as tx, pytest.raises(InvalidArgument, match="another store"):
            send.at(other).options(tx=tx).enqueue()


# ---- handles -------------------------------------------------------------------------------------


def test_a_result_is_waited_for_so_long(app: App) -> None:
    """Python's own TimeoutError; with 0 it looks once."""

    @app.job
    def send() -> None: ...

    handle = send.enqueue()
    for timeout in (0, 0.02):
        with pytest.raises(TimeoutError, match="send"):
            handle.result(timeout)


def test_a_handle_of_nothing_says_gone(app: App) -> None:
    """What never was, and what retention took, look the same."""

    @app.job
    def send() -> None: ...

    handle = send.handle(12345)
    for look in (handle.status, lambda: handle.result(0), lambda: next(handle.watch())):
        with pytest.raises(Gone):
            look()
    assert handle.cancel() is False


def test_cancelling_says_whether_it_was_in_time(app: App) -> None:
    """The second time it has ended; its result is Cancelled; a rollback takes it back."""

    @app.job
    def send() -> None: ...

    handle = send.enqueue()
    with pytest.raises(ZeroDivisionError), app.transaction() as tx:
        assert handle.cancel(tx=tx)
        raise ZeroDivisionError
    assert handle.status().state == "pending"
    assert handle.cancel() is True
    assert handle.cancel() is False
    assert [status.state for status in handle.watch()] == ["cancelled"]
    with pytest.raises(fencepost.Cancelled):
        handle.result()


def test_the_owner_of_a_transaction_is_told_not_left_waiting(app: App) -> None:
    """A handle that would wait for its own thread's transaction refuses."""

    @app.job
    def send() -> None: ...

    handle = send.enqueue()
    with app.transaction(), pytest.raises(InvalidArgument, match="tx="):
        handle.result(1)


def test_a_store_that_is_closed_says_so(app: App, path: Path) -> None:
    """Jobs and handles alike."""

    @app.job
    def send() -> None: ...

    handle = send.enqueue()
    app.store.close()
    for look in (send.enqueue, handle.status):
        with pytest.raises(fencepost.Closed):
            look()


def test_types_are_those_of_the_function(app: App) -> None:
    """What mypy is to see here is what the annotations say."""

    @app.job
    async def double(n: int) -> int:
        return 2 * n

    @app.job(context=True)
    def shout(ctx: fencepost.Context, text: str) -> str:
        return text.upper()

    number: fencepost.Handle[int] = double.enqueue(3)
    text: fencepost.Handle[str] = shout.options(delay=1).enqueue("a")
    many: list[fencepost.Handle[int]] = double.enqueue_many([double.call(1)])
    assert [number.created, text.created, many[0].created] == [True] * 3
    if TYPE_CHECKING:
        double.enqueue("3")  # type: ignore[arg-type]
        shout.enqueue(3)  # type: ignore[arg-type]


def test_a_store_can_be_at_another_apps_file(app: App) -> None:
    """at() keeps options, and options keep at()."""

    @app.job
    def send() -> None: ...

    store: Store = app.store
    assert send.options(lane="a").at(store).options(key="k").enqueue().key == "k"
