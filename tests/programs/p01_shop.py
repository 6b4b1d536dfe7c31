"""
FastAPI and SQLAlchemy in one file with the queue; a worker in this process, and one beside it:

    fencepost work p01_shop:jobs
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

import fencepost

PATH = "shop.db"
jobs = fencepost.App(PATH, wal=True)  # SQLAlchemy may be first to make the file
engine = create_engine(f"sqlite:///{PATH}")
make_session = sessionmaker(engine)


@event.listens_for(engine, "begin")
def _immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # a reader that writes late cannot be waited for


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    total: Mapped[int]
    state: Mapped[str] = mapped_column(default="new")


class OrderIn(BaseModel):
    email: str
    total: int


@jobs.job(queue="mail", max_attempts=5, timeout=30)
def send_mail(to: str, text: str) -> str:
    return f"sent {to}"


@jobs.job(context=True, max_attempts=8, permanent=(ValueError,))
def pack(ctx: fencepost.Context, order: int) -> str:
    """ORM rows, the follow-up job and the end of this job: one commit."""
    with make_session.begin() as session:
        row = session.get(Order, order)
        if row is None:
            raise fencepost.PermanentError(f"no order {order}", code="missing")
        row.state = "packed"
        send_mail.options(key=f"packed:{order}", tx=session).enqueue(row.email, "on its way")
        ctx.ack("packed", tx=session)
    return "packed"


def session() -> Iterator[Session]:
    with make_session.begin() as s:
        yield s


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
    Base.metadata.create_all(engine)
    async with jobs.worker(queues=["mail"], threads=2):
        yield


api = FastAPI(lifespan=lifespan)


@api.post("/orders", status_code=202)
def take(order: OrderIn, s: Annotated[Session, Depends(session)]) -> dict[str, int]:
    row = Order(email=order.email, total=order.total)
    s.add(row)
    s.flush()
    send_mail.options(key=f"welcome:{row.id}", tx=s).enqueue(order.email, "thanks")
    handle = pack.options(delay=2, key=f"pack:{row.id}", lane=order.email, tx=s).enqueue(row.id)
    return {"order": row.id, "job": handle.id}


@api.get("/jobs/{id}")
async def job(id: int) -> dict[str, object]:
    try:
        status = await pack.aio.handle(id).status()
    except fencepost.Gone:
        raise HTTPException(404) from None
    return {"state": status.state, "attempt": status.attempt}


@api.post("/raw")
async def raw(order: OrderIn) -> dict[str, int]:
    def write(tx: fencepost.Transaction) -> int:
        rows = tx.execute(
            "INSERT INTO orders (email, total, state) VALUES (?, ?, 'new') RETURNING id",
            (order.email, order.total),
        )
        pack.options(tx=tx).enqueue(int(rows[0][0]))
        return int(rows[0][0])

    return {"order": await jobs.aio.transact(write)}


@api.get("/health")
def health() -> list[str]:
    return jobs.store.check()
