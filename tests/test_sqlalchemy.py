"""A real SQLAlchemy on the same file, in the same process: Core and ORM."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost import Busy, Conflict, InvalidArgument, LeaseLost, Queue, Store, sql

sqlalchemy = pytest.importorskip("sqlalchemy")

from sqlalchemy import Engine, Integer, MetaData, Table, create_engine, event, select  # noqa: E402
from sqlalchemy.orm import (  # noqa: E402
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    total: Mapped[int] = mapped_column(Integer)


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with fencepost.open(path) as store:
        yield store
        assert store.check(full=True) == []


@pytest.fixture
def queue(store: Store) -> Queue[Any]:
    return store.queue("data")


@pytest.fixture(params=["as it comes", "immediate"])
def engine(request: pytest.FixtureRequest, store: Store) -> Iterator[Engine]:
    """As an application first has it, and as SQLAlchemy's own page on SQLite advises."""
    engine = create_engine(f"sqlite:///{store.path}", connect_args={"timeout": 0.2})
    if request.param == "immediate":

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


def orders(engine: Engine) -> int:
    with engine.connect() as connection:
        return len(connection.execute(select(Order.id)).all())


def test_a_session_and_the_queue_are_one_commit(engine: Engine, queue: Queue[Any]) -> None:
    """ORM rows, flushed or not, and the message; a rollback leaves neither."""
    with pytest.raises(ZeroDivisionError), Session(engine) as session, session.begin():
        session.add(Order(total=1))
        queue.enqueue("a", tx=session)
        raise ZeroDivisionError
    assert (orders(engine), queue.size()) == (0, 0)
    with Session(engine) as session, session.begin():
        order = Order(total=1)
        session.add(order)
        session.flush()
        said = {"order": order.id}
        given = queue.enqueue(said, key=f"order:{order.id}", tx=session)
        session.add(Order(total=2))
    assert (orders(engine), queue.size()) == (2, 1)
    (claim,) = queue.claim()
    assert (claim.id, claim.payload) == (given.id, said)


def test_a_connection_and_the_queue_are_one_commit(engine: Engine, queue: Queue[Any]) -> None:
    """Begun by itself at the first statement, or by name; also with a savepoint in it."""
    table = Table("orders", MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        queue.enqueue("a", tx=connection)
        connection.execute(table.insert().values(total=1))
        connection.rollback()
        assert queue.size() == 0
        connection.execute(table.insert().values(total=1))
        queue.enqueue("b", tx=connection)
        with pytest.raises(ZeroDivisionError), connection.begin_nested():
            queue.enqueue_many(["c", "d"], tx=connection)
            raise ZeroDivisionError
        connection.commit()
    with engine.begin() as connection:
        queue.enqueue("e", tx=connection)
    assert orders(engine) == 1
    assert [claim.payload for claim in queue.claim(5)] == ["b", "e"]


def test_a_session_that_is_not_there_yet_is_asked_for_its_own(
    engine: Engine, queue: Queue[Any]
) -> None:
    """As web frameworks have it: one session for each thread, made at its first use."""
    session = scoped_session(sessionmaker(engine))
    queue.enqueue("a", tx=session)
    session.commit()
    session.remove()
    assert queue.size() == 1


def test_a_refusal_leaves_the_session_as_it_was(engine: Engine, queue: Queue[Any]) -> None:
    with Session(engine) as session, session.begin():
        first = queue.enqueue("a", key="k", tx=session)
        with pytest.raises(Conflict) as told:
            queue.enqueue("b", key="k", tx=session)
        assert told.value.id == first.id
        with pytest.raises(InvalidArgument, match="there is no such queue"):
            sql.enqueue(session, "none", "{}")
        session.add(Order(total=1))
    assert (orders(engine), queue.size()) == (1, 1)


def test_claims_are_settled_in_a_session(engine: Engine, queue: Queue[Any]) -> None:
    queue.enqueue_many(["a", "b", "c"])
    one, two, three = queue.claim(3)
    with Session(engine) as session, session.begin():
        session.add(Order(total=1))
        one.ack(tx=session)
        assert queue.ack([one, two], tx=session) == [one]  # it is gone already, here
    with pytest.raises(LeaseLost), Session(engine) as session, session.begin():
        session.add(Order(total=2))
        three.retry(0, error=ValueError("no"), tx=session)
        three.ack(tx=session)
    assert (orders(engine), queue.size()) == (1, 1)
    three.ack()


def test_a_reader_that_writes_too_late_is_told_the_event(store: Store, queue: Queue[Any]) -> None:
    """With the recipe that begins deferred transactions at once, which SQLAlchemy once advised."""
    engine = create_engine(f"sqlite:///{store.path}", connect_args={"timeout": 0.2})

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.scalars(select(Order)).all()
        queue.enqueue("a")
        with pytest.raises(Busy, match='event.listens_for.engine, "begin".*BEGIN IMMEDIATE'):
            queue.enqueue("b", tx=session)
        session.rollback()
        queue.enqueue("b", tx=session)
        session.commit()
    engine.dispose()
    assert queue.size() == 2


def test_wrong_use_is_told(engine: Engine, queue: Queue[Any], tmp_path: Path) -> None:
    connection = engine.connect()
    connection.close()
    with pytest.raises(InvalidArgument, match="closed"):
        queue.enqueue("a", tx=connection)
    alone = create_engine(engine.url, isolation_level="AUTOCOMMIT")
    with (
        alone.connect() as connection,
        pytest.raises(
            InvalidArgument, match="no transaction open: begin one with connection.begin"
        ),
    ):
        queue.enqueue("a", tx=connection)
    alone.dispose()
    other = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    with (
        other.connect() as connection,
        pytest.raises(InvalidArgument, match="the connection is to"),
    ):
        queue.enqueue("a", tx=connection)
    other.dispose()
    with Session() as session, pytest.raises(InvalidArgument, match="bind"):
        queue.enqueue("a", tx=session)
    assert queue.size() == 0


def test_an_async_connection_is_told_where_to_go(store: Store, queue: Queue[Any]) -> None:
    aio = pytest.importorskip("sqlalchemy.ext.asyncio")
    pytest.importorskip("aiosqlite")

    async def main() -> None:
        engine = aio.create_async_engine(f"sqlite+aiosqlite:///{store.path}")
        async with aio.AsyncSession(engine) as session:
            with pytest.raises(InvalidArgument, match="run_sync"):
                queue.enqueue("a", tx=session)
            await session.run_sync(lambda plain: queue.enqueue("b", tx=plain))
            await session.rollback()
            await session.run_sync(lambda plain: queue.enqueue("c", tx=plain))
            await session.commit()
        await engine.dispose()

    asyncio.run(main())
    assert [claim.payload for claim in queue.claim(5)] == ["c"]


def test_nobody_imports_what_nobody_uses() -> None:
    program = (
        "import sys, fencepost, fencepost.sql; print(*(name for name in"
        " ('sqlite3', 'sqlalchemy', 'django') if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
