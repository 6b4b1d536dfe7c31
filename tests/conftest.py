"""
The hostile core wherever it was built, and what nearly every test needs.

Nothing here opens a store's file with another SQLite in this process: the file is looked at by
another one.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import standin_durability
from harness_outside import Outside
from harness_processes import end_all

# A shell that starts us in the background has it ignored, and so would every child of ours.
signal.signal(signal.SIGINT, signal.default_int_handler)


def hostile_core_is_built() -> bool:
    """Whether `fencepost._core_test` is there; asked without importing fencepost."""
    package = importlib.util.find_spec("fencepost")
    folders = package.submodule_search_locations if package else None
    return any(
        (Path(folder) / f"_core_test{suffix}").exists()
        for folder in folders or ()
        for suffix in EXTENSION_SUFFIXES
    )


if "fencepost" not in sys.modules and hostile_core_is_built():
    os.environ.setdefault("FENCEPOST_TEST_CORE", "1")

standin_durability.install()

if TYPE_CHECKING:
    from fencepost import App, Store
    from fencepost._binding.calls import Core
    from fencepost.compat.without_durability import Durable
    from fencepost.testing import Clock, Kit
    from harness_core import Held
    from harness_flow import Scene
    from harness_worker import Notes

DUMP = """
import sqlite3, sys
connection = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
print(*connection.iterdump(), sep="\\n")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def app(path: Path) -> Iterator[App]:
    """Over a file, which is made at its first use: under a `kit` it is not."""
    import fencepost

    app = fencepost.App(path)
    yield app
    if path.exists():
        app.store.close()


@pytest.fixture
def clock() -> Clock:
    """Stands at noon of the first of March 2026 until a test turns it."""
    from fencepost.testing import Clock
    from harness_worker import NOON

    return Clock(NOON)


@pytest.fixture
def store(path: Path, clock: Clock) -> Iterator[Store]:
    with clock.open(path) as store:
        yield store


@pytest.fixture
def orders(store: Store) -> None:
    """The application's own table, beside ours."""
    from harness_queue import ORDERS

    with store.transaction() as tx:
        tx.execute(ORDERS)


@pytest.fixture
def real(path: Path) -> Iterator[Store]:
    """A store with the real clock."""
    import fencepost

    with fencepost.open(path) as store:
        yield store


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    """Lines that several processes write down."""
    from harness_worker import Notes

    return Notes(tmp_path / "notes")


@pytest.fixture
def durable(store: Store) -> Iterator[Durable]:
    """The stores of `without-durability` over `store`, in which at the end nothing is wrong."""
    import harness_durable

    yield harness_durable.durable_of(harness_durable.Database(store))
    assert store.check(full=True) == []


@pytest.fixture
def dump() -> Callable[[Path], str]:
    """The whole file as SQL, read by another process."""

    def read(path: Path) -> str:
        command = [sys.executable, "-c", DUMP, str(path)]
        return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout

    return read


@pytest.fixture
def foreign(path: Path) -> Callable[[str], str]:
    """Runs SQL on the file with another SQLite, in another process."""
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2]).close()"

    def run(sql: str) -> str:
        command = [sys.executable, "-c", program, str(path), sql]
        return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout

    return run


@pytest.fixture(scope="session")
def outside() -> Iterator[Outside]:
    """Another process that reads and changes files with another SQLite, asked again and again."""
    with Outside() as one:
        yield one


@pytest.fixture
def hand_us() -> int:
    """Where the hand of the core's clock stands. A module may have another one, or REAL_CLOCK."""
    import harness_core

    return harness_core.START


@pytest.fixture
def core(path: Path, hand_us: int) -> Iterator[Core]:
    """The core as C gives it, by the clock's hand; at the end its check finds nothing."""
    import harness_core
    from harness_ladder import findings

    with harness_core.core(path, hand_us=hand_us) as one:
        yield one
        assert findings(one) == ""


@pytest.fixture
def queue(core: Core) -> int:
    """A queue of nothing but defaults."""
    import harness_core

    return harness_core.define(core, "q")


@pytest.fixture
def at(core: Core) -> Scene:
    """A queue of wake-ups, and what is done with the runs in it."""
    from harness_flow import scene

    return scene(core)


@pytest.fixture
def jobs(core: Core) -> int:
    """Another queue beside it."""
    from harness_core import define

    return define(core, "jobs")


@pytest.fixture
def parent(at: Scene) -> Held:
    """The pass of a run named "run"."""
    at.start()
    return at.take()[0]


@pytest.fixture
def faults_end(app: App) -> Iterator[None]:
    """What a test lets fail works again when its App is closed."""
    from harness_ladder import disarm

    yield
    disarm()


@pytest.fixture
def kit(app: App) -> Iterator[Kit]:
    """The testing kit on the App's declarations, from noon of the first of March 2026 on."""
    from fencepost.testing import override
    from harness_worker import NOON

    with override(app, now=NOON) as kit:
        yield kit


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """For tests of the lock shim: no descriptor, no mapping, no lock stays."""
    from harness_shim import nothing_left

    with nothing_left():
        yield


@pytest.fixture
def guest(path: Path) -> Iterator[int]:
    """A descriptor of the file that is not our SQLite's."""
    from harness_shim import guest_of

    with guest_of(path) as fd:
        yield fd


@pytest.fixture
def unchanged(path: Path, outside: Outside) -> Callable[[], None]:
    """Called before and after: the whole file says the same."""
    before: list[str] = []

    def same() -> None:
        before.append(outside.dump(path))
        assert before[0] == before[-1]

    return same


@pytest.fixture
def no_process_left() -> Iterator[None]:
    """For tests that start processes: whatever goes wrong, they end with the test."""
    yield
    end_all()


@pytest.fixture
def elsewhere(path: Path) -> Callable[[str], str]:
    """Runs Python in another process; it finds `path`, and fencepost imported."""

    def run(program: str) -> str:
        lines = f"import fencepost\npath = {str(path)!r}\n{program}"
        command = [sys.executable, "-W", "error", "-c", lines]
        done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(params=["asyncio", "uvloop"])
def run_async(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine on a loop of either library."""
    from harness_aio import run_on

    pytest.importorskip(request.param)
    return partial(run_on, request.param)
