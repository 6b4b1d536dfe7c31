"""The App: where it lives, what is entered around its handlers, and workers over several files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

import fencepost
from fencepost import App, Closed, Context, InvalidArgument
from harness_worker import until

T = TypeVar("T")


def test_the_file_is_opened_at_its_first_use(path: Path) -> None:
    """Declaring opens nothing; many threads that ask at once open it once."""
    app = App(path)

    @app.job
    def send() -> None: ...

    app.queue("q", int)
    assert not path.exists()
    stores: list[fencepost.Store] = []
    threads = [threading.Thread(target=lambda: stores.append(app.store)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(store) for store in stores}) == 1
    assert path.exists()
    app.store.close()


def test_an_app_without_a_path_has_no_file(tmp_path: Path) -> None:
    """It is declarations only, until a file is opened for them."""
    app = App()
    queue = app.queue("q", int)

    @app.job
    def send() -> None: ...

    for use in (lambda: app.store, app.transaction, lambda: queue.enqueue(1), send.enqueue):
        with pytest.raises(InvalidArgument, match="no path"):
            use()
    with pytest.raises(InvalidArgument, match="stores="):
        app.worker().start()


def test_a_worker_serves_several_files(tmp_path: Path) -> None:
    """With one executor of threads; ctx.store is the one the message came from."""
    app = App()

    @app.job(context=True)
    def where(ctx: Context) -> str:
        return ctx.store.path

    a, b = app.open(tmp_path / "a.db"), app.open(tmp_path / "b.db")
    with a, b, app.worker(stores=[a], threads=1) as worker:
        assert where.at(a).enqueue().result(30) == a.path
        worker.add(b)
        handles = [where.at(store).enqueue() for store in (a, b) * 10]
        assert [handle.result(30) for handle in handles] == [a.path, b.path] * 10
        worker.remove(a)
        left = where.at(a).enqueue()
        assert where.at(b).enqueue().result(30) == b.path
        assert left.status().state == "pending"
        assert worker.running


def test_a_worker_works_on_the_queues_it_is_given(app: App) -> None:
    """And on no others; a name without anything to run is refused."""

    @app.job(queue="mail")
    def mail() -> int:
        return 1

    @app.job
    def other() -> None: ...

    app.queue("silent", int)
    waiting = other.enqueue()
    with app.worker(queues=["mail"]):
        assert mail.enqueue().result(30) == 1
        assert waiting.status().state == "pending"
    for names in (["silent"], ["nowhere"], ["mail", "nowhere"], []):
        with pytest.raises(InvalidArgument):
            app.worker(queues=names).start()
    with pytest.raises(InvalidArgument, match="list of names"):
        app.worker(queues="mail")


def test_an_app_with_nothing_to_run_has_no_worker(app: App) -> None:
    """A clear word at the start instead of a worker that never does anything."""
    app.queue("silent", int)
    with pytest.raises(InvalidArgument, match="nothing to work on"):
        app.worker().start()


@pytest.mark.parametrize("numbers", [{"threads": 0}, {"threads": 1.5}, {"grace": -1}])
def test_a_worker_of_impossible_size_is_refused(app: App, numbers: Any) -> None:
    """Where it is made."""
    with pytest.raises(InvalidArgument):
        app.worker(**numbers)


def test_what_is_around_a_handler_is_entered_in_order_and_left_in_reverse(app: App) -> None:
    """In the thread of the handler, with its context; also when it raises."""
    said: list[str] = []

    def saying(word: str) -> Any:
        @contextmanager
        def enter(ctx: Context) -> Iterator[None]:
            said.append(f"+{word}{ctx.id} {threading.current_thread().name}")
            try:
                yield
            finally:
                said.append(f"-{word}{ctx.id} {threading.current_thread().name}")

        return enter

    app.around(saying("a"))
    app.around(saying("b"))

    @app.job(max_attempts=1)
    def work() -> None:
        said.append(threading.current_thread().name)
        raise ValueError

    handle = work.enqueue()
    with app.worker(threads=1), pytest.raises(fencepost.JobFailed):
        handle.result(30)
    name = said[2]
    expected = [f"+a{handle.id}", f"+b{handle.id}", "", f"-b{handle.id}", f"-a{handle.id}"]
    assert said == [f"{word} {name}".strip() for word in expected]


class Plain:
    """A codec of the user's own, which looks at no types."""

    def encode(self, value: object, /) -> bytes:
        return b"v1" + msgspec.msgpack.encode(value)

    def decode(self, body: bytes, type: Any, /) -> Any:
        return msgspec.msgpack.decode(body[2:])


def test_a_codec_of_ones_own_writes_arguments_results_and_progress(path: Path) -> None:
    """What it does not look at is still checked against the signature."""
    app = App(path, codec=Plain())
    gate = threading.Event()

    @app.job(context=True)
    def join(ctx: Context, words: tuple[str, ...]) -> str:
        ctx.progress(len(words))
        assert gate.wait(30)
        assert isinstance(words, tuple)
        return " ".join(words)

    handle = join.enqueue(("a", "b"))
    assert app.store.content(handle.id).body[:2] == b"v1"
    with app.worker():
        until(lambda: handle.status().progress == 2)
        gate.set()
        assert handle.result(30) == "a b"
    assert app.store.content(handle.id).result == Plain().encode("a b")
    app.store.close()


def test_a_store_that_closes_ends_its_worker(app: App) -> None:
    """It says so, and can be told apart from one that works."""

    @app.job
    def send() -> None: ...

    worker = app.worker().start()
    app.store.close()
    until(lambda: not worker.running)
    assert worker.stop()
    with pytest.raises(Closed):
        send.enqueue()
