"""The plugin, as pytest runs it on somebody's project."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import quiet_environment

pytest_plugins = ["pytester"]

BY_NAME = ("-pno:fencepost", "-pfencepost._pytest")  # whether or not Fencepost is installed
# In one process with us it finds Fencepost imported, which it tells if that has an entry point.
WARNINGS = "filterwarnings =\n  error\n  ignore::pytest.PytestAssertRewriteWarning\n"
ASYNC = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"

SHOP = """
import fencepost

app = fencepost.App("shop.db")
ran = []

@app.job(backoff=fencepost.Backoff(base=60, jitter=0))
def pack(order: int) -> str:
    ran.append(order)
    if len(ran) < 3:
        raise ConnectionError("not yet")
    return f"packed {order}"

@app.job
async def greet(name: str) -> str:
    return f"hello {name}"

@app.every(3600)
@app.job
def tick() -> None: ...
"""

Project = Callable[..., pytest.RunResult]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Runs pytest on the shop and a test file; its standing order is `-W error`."""
    for name in os.environ.keys() - quiet_environment().keys():
        monkeypatch.delenv(name)

    def run(tests: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(shop=SHOP, test_it=tests)
        pytester.makeini(f"[pytest]\n{WARNINGS}pythonpath = .\n{ASYNC}")
        return pytester.runpytest_inprocess(*BY_NAME, "--strict-markers", *arguments)

    return run


def test_the_fixture_gives_a_kit_for_an_app(project: Project, pytester: pytest.Pytester) -> None:
    """Each test has a file of its own, and nothing stays: no file, no thread, no time."""
    result = project(
        """
        import tempfile, threading, time
        from pathlib import Path
        import pytest
        import shop

        paths, threads = [], threading.active_count()

        @pytest.fixture
        def kit(fencepost):
            shop.ran.clear()
            kit = fencepost(shop.app)
            paths.append(kit.store.path)
            return kit

        def test_retries_with_their_back_off(kit):
            began, now = time.monotonic(), kit.now
            handle = shop.pack.enqueue(7)
            kit.assert_enqueued(shop.pack, 7)
            assert kit.drain(until_idle=True) == (1, 2, 0, 0)
            assert handle.result() == "packed 7"
            assert (kit.now - now).total_seconds() == 60 + 120
            assert time.monotonic() - began < 60

        def test_what_another_test_enqueued_is_not_there(kit):
            assert kit.enqueued("default") == []

        def test_schedules(kit):
            kit.drain()
            kit.advance(3600)
            assert kit.drain().done == 1

        def test_nothing_is_left():
            assert len(set(paths)) == 3
            assert not any(Path(path).parent.exists() for path in paths)
            assert threading.active_count() == threads
            assert shop.app._store is None
        """
    )
    result.assert_outcomes(passed=4)
    assert not (pytester.path / "shop.db").exists()


def test_several_apps_a_path_and_a_moment(project: Project) -> None:
    result = project(
        """
        from datetime import datetime, timezone
        import fencepost as package
        import shop

        other = package.App("other.db")

        @other.job
        def count() -> None: ...

        def test_it(fencepost, tmp_path):
            now = datetime(2030, 1, 1, tzinfo=timezone.utc)
            first = fencepost(shop.app, tmp_path / "shop.db", now=now)
            second = fencepost(other)
            count.enqueue()
            assert first.now == now
            assert first.enqueued("default") == []
            assert len(second.enqueued(count)) == 1
            assert (tmp_path / "shop.db").exists()
        """
    )
    result.assert_outcomes(passed=1)


def test_async_tests(project: Project) -> None:
    result = project(
        """
        import asyncio
        import shop

        async def test_it(fencepost):
            kit = fencepost(shop.app)
            handle = shop.greet.enqueue("ann")
            assert (await kit.adrain()).done == 1
            assert handle.result() == "hello ann"

        def test_without_a_loop(fencepost):
            kit = fencepost(shop.app)
            handle = shop.greet.enqueue("bob")
            assert kit.drain().done == 1
            assert handle.result() == "hello bob"
        """
    )
    result.assert_outcomes(passed=2)


def test_what_was_enqueued_instead_is_in_the_report(project: Project) -> None:
    """And what a handler raised is in the log of the test that failed."""
    result = project(
        """
        import shop

        def test_it(fencepost):
            kit = fencepost(shop.app)
            shop.ran.clear()
            shop.pack.enqueue(7)
            kit.drain()
            kit.assert_enqueued(shop.pack, 8)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ['*no call of pack with {"order":8} is in line', '*{"order":7}, due in 0:01:00']
    )
    result.stdout.fnmatch_lines(["*pack 1, attempt 1, raised ConnectionError*", "*shop.py*"])


def test_each_process_of_xdist_has_its_own_files(project: Project) -> None:
    pytest.importorskip("xdist")
    result = project(
        """
        import pytest
        import shop

        @pytest.mark.parametrize("order", range(20))
        def test_it(fencepost, order):
            kit = fencepost(shop.app)
            shop.pack.enqueue(order)
            assert len(kit.enqueued("default")) == 1
            assert sum(kit.drain(until_idle=True)) in (1, 3)
        """,
        "-n2",
    )
    result.assert_outcomes(passed=20)


def test_pytest_finds_it_by_its_entry_point(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Fencepost is installed nothing is to be declared; here by what pyproject.toml says."""
    project = Path(__file__).resolve().parent.parent / "pyproject.toml"
    said = project.read_text(encoding="utf-8").partition("[project.entry-points.pytest11]\n")[2]
    name, _, module = said.splitlines()[0].partition(" = ")
    made = pytester.mkdir("installed") / "stand_in-1.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: stand-in\nVersion: 1\n")
    (made / "entry_points.txt").write_text(f"[pytest11]\n{name} = {module.strip(chr(34))}\n")
    monkeypatch.syspath_prepend(str(made.parent))
    monkeypatch.setenv("PYTHONPATH", str(made.parent), prepend=os.pathsep)
    pytester.makepyfile(test_it="def test_it(fencepost): assert callable(fencepost)")
    pytester.runpytest_subprocess("--strict-markers", timeout=60).assert_outcomes(passed=1)
