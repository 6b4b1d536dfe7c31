"""Where the kit keeps its file, when it begins, and what the App is before, within and after."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import App, InvalidArgument
from fencepost.testing import Kit, override
from harness_worker import NOON


@pytest.fixture
def app(tmp_path: Path) -> App:
    app = App(tmp_path / "real.db")
    app.job(pack)
    return app


def pack(order: int) -> str:
    return f"packed {order}"


def enqueue(app: App, order: int) -> None:
    job = app._registry.job("pack")
    assert job is not None
    job.enqueue(order)


def in_line(kit: Kit) -> list[str]:
    return [kit.store.content(message.id).body.decode() for message in kit.enqueued("default")]


def test_the_real_file_is_not_touched(app: App, tmp_path: Path) -> None:
    with override(app):
        enqueue(app, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_goes_with_the_kit_whatever_happens(app: App) -> None:
    with pytest.raises(ZeroDivisionError), override(app) as kit:
        folder = Path(kit.store.path).parent
        assert folder.exists()
        raise ZeroDivisionError
    assert not folder.exists()
    assert app._store is None


@pytest.mark.hostile
def test_what_is_thrown_away_is_not_synced(app: App, tmp_path: Path) -> None:
    """A file of one's own is, as the App says."""
    from harness_core import lib

    def synchronous(kit: Kit) -> int:
        return kit.store._file.core._number(lib.fp_pragma, b"PRAGMA synchronous")

    with override(app) as kit:
        assert synchronous(kit) == 0
    with override(app, tmp_path / "kept.db") as kit:
        assert synchronous(kit) == 2
    with pytest.raises(InvalidArgument, match="durability"):
        fencepost.open(tmp_path / "kept.db", durability="none")  # type: ignore[arg-type]


def test_blocks_may_be_nested(app: App) -> None:
    with override(app) as outer:
        enqueue(app, 1)
        with override(app) as inner:
            assert app.store is inner.store
            enqueue(app, 2)
            assert in_line(inner) == ['{"order":2}']
        assert app.store is outer.store
        enqueue(app, 3)
        assert in_line(outer) == ['{"order":1}', '{"order":3}']


def test_an_app_in_use_is_itself_again(app: App) -> None:
    with app.store:
        store = app.store
        enqueue(app, 1)
        with override(app) as kit:
            assert app.store is not store
            assert kit.drain() == (0, 0, 0, 0)
        assert app.store is store
        assert len(store.messages("pending")) == 1


def test_the_file_may_be_that_of_an_orm(app: App, tmp_path: Path) -> None:
    """Its rows and ours are one transaction there, too."""
    sqlalchemy = pytest.importorskip("sqlalchemy")
    path = tmp_path / "orm.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    job = app._registry.job("pack")
    assert job is not None
    with override(app, path) as kit:
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        with pytest.raises(ZeroDivisionError), engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO orders VALUES (1)")
            job.options(tx=connection).enqueue(1)
            raise ZeroDivisionError
        with engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO orders VALUES (2)")
            job.options(tx=connection).enqueue(2)
        assert in_line(kit) == ['{"order":2}']
        assert kit.drain().done == 1
    engine.dispose()
    assert path.exists()


def test_the_clock_begins_now_or_when_it_is_told(app: App) -> None:
    before = datetime.now(timezone.utc)
    with override(app) as kit:
        assert before <= kit.now <= datetime.now(timezone.utc)
        assert kit.now == kit.now
    with override(app, now=NOON) as kit:
        assert kit.now == NOON


def test_a_file_goes_on_where_its_time_stands(app: App, tmp_path: Path) -> None:
    path = tmp_path / "again.db"
    later = datetime.now(timezone.utc) + timedelta(days=400)
    with override(app, path) as kit:
        kit.advance(later)
        enqueue(app, 1)
    with override(app, path) as kit:
        assert kit.now == later
        assert kit.store.stats()["time"] == later
    with pytest.raises(InvalidArgument, match="never falls"), override(app, path, now=NOON):
        pass
    assert app._path == tmp_path / "real.db"


def test_wrong_use_is_told(app: App) -> None:
    path: Any = "shop.db"
    with pytest.raises(InvalidArgument, match="takes an App"), override(path):
        pass
    with pytest.raises(InvalidArgument, match="zone"), override(app, now=NOON.replace(tzinfo=None)):
        pass
    with override(app) as kit:
        for wrong in (-1, True, "many"):
            with pytest.raises(InvalidArgument, match="limit"):
                kit.drain(limit=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="attempt"):
            kit.context(attempt=0)
        with pytest.raises(InvalidArgument, match="span"):
            kit.advance("tomorrow")  # type: ignore[arg-type]
    with pytest.raises(fencepost.Closed):
        kit.drain()
    with override(App()) as kit, pytest.raises(InvalidArgument, match="nothing to work on"):
        kit.drain()
