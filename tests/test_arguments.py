"""What is of the wrong type: one InvalidArgument in plain words, wherever it is given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, NamedTuple

import pytest

import fencepost
from fencepost import App, InvalidArgument

NOW = datetime.now(timezone.utc)


class On(NamedTuple):
    """What the calls are made on."""

    app: App
    store: fencepost.Store
    job: fencepost.Job[..., Any]
    queue: fencepost.Queue[Any]


def work(*values: Any) -> None:
    """Not a builtin: Python 3.10 knows the signatures of few of those."""


class Mute:
    """A value that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError


WRONG = [7.5, Mute(), "\ud800", "x" * 100_000, {1: 2}, [[]], b"x", work]

# Each call, and those of the wrong ones that are right for it.
CALLS: dict[str, tuple[Callable[[On, Any], object], tuple[type, ...]]] = {
    "aliases": (lambda on, v: on.app.job(name="a", aliases=v)(work), ()),
    "permanent": (lambda on, v: on.app.job(name="a", permanent=v)(work), ()),
    "a job's name": (lambda on, v: on.app.job(name=v)(abs), (str,)),
    "a job's function": (lambda on, v: on.app.job(name="a")(v), (type(work),)),
    "context": (lambda on, v: on.app.job(name="a", context=v)(lambda ctx: None), ()),
    "a backoff": (lambda on, v: on.app.job(name="a", backoff=v)(work), ()),
    "a job's calls": (lambda on, v: on.job.enqueue_many(v), ()),
    "a job's store": (lambda on, v: on.job.at(v), ()),
    "a handle": (lambda on, v: on.job.handle(v).status(), ()),
    "a delay": (lambda on, v: on.queue.enqueue(1, delay=v), (float,)),
    "headers": (lambda on, v: on.queue.enqueue(1, headers=v), ()),
    "payloads": (lambda on, v: on.queue.enqueue_many(v), (str, dict, list, bytes)),
    "a key's function": (lambda on, v: on.queue.enqueue_many([1], key=v), (type(work),)),
    "a lane's function": (lambda on, v: on.queue.enqueue_many([1], lane=v), (type(work),)),
    "claims": (lambda on, v: on.queue.ack(v), ()),
    "a queue's store": (lambda on, v: on.queue.at(v), ()),
    "a handler": (lambda on, v: on.queue.handler()(v), (type(work),)),
    "a queue's type": (lambda on, v: on.store.queue("q", v), (str,)),
    "a state": (lambda on, v: on.store.messages(v), ()),
    "a kind": (lambda on, v: on.store.messages("dead", kind=v), (str,)),
    "an id": (lambda on, v: on.store.message(v), ()),
    "an id of content": (lambda on, v: on.store.content(v), ()),
    "full": (lambda on, v: on.store.check(full=v), ()),
    "messages to replay": (lambda on, v: on.store.replay(v), ()),
    "a rate": (lambda on, v: on.store.replay([], rate=v), (float,)),
    "replay's apply": (lambda on, v: on.store.replay([], apply=v), ()),
    "messages to cancel": (lambda on, v: on.store.cancel(v), ()),
    "a purge's limit": (lambda on, v: on.store.purge("dead", NOW, limit=v), ()),
    "a purge's apply": (lambda on, v: on.store.purge("dead", NOW, apply=v), ()),
    "SQL": (lambda on, v: run(on, lambda tx: tx.execute(v)), (str,)),
    "sets of parameters": (lambda on, v: run(on, lambda tx: tx.executemany("SELECT ?", v)), ()),
    "a path": (lambda on, v: fencepost.open(v), (bytes,)),
    "create": (lambda on, v: fencepost.open(on.store.path, create=v), ()),
    "a codec": (lambda on, v: fencepost.open(on.store.path, codec=v), ()),
    "durability": (lambda on, v: fencepost.open(on.store.path, durability=v), ()),
    "a worker's queues": (lambda on, v: on.app.worker(queues=v).start(), ()),
    "a worker's stores": (lambda on, v: on.app.worker(stores=v), ()),
    "a worker's further store": (lambda on, v: on.app.worker().add(v), ()),
    "around": (lambda on, v: on.app.around(v), (type(work),)),
}


def run(on: On, what: Callable[[fencepost.Transaction], object]) -> None:
    with on.store.transaction() as tx:
        what(tx)


@pytest.mark.parametrize("name", CALLS)
def test_the_wrong_type_is_an_invalid_argument(name: str, app: App) -> None:
    """In one short line, and nothing has happened."""
    call, right = CALLS[name]
    on = On(app, app.store, app.job(name="job")(work), app.store.queue("q"))
    for wrong in WRONG:
        if right and isinstance(wrong, right):
            continue
        with pytest.raises(InvalidArgument) as caught:
            call(on, wrong)
        assert len(str(caught.value)) < 1000
        assert "\n" not in str(caught.value)
    assert on.store.stats()["totals"]["pending"] == 0
