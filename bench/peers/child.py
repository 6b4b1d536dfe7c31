"""
The process in which one queue is measured: `python -m bench.peers.child NAME BODIES`.

BODIES is a file with one payload on each line, as JSON. Orders come line by line, each is
answered by one line of JSON, and bench/c/raw.c and plainjob.mjs speak the same way:

    open SYNC N PATH    the queue in this folder, in which the first N payloads are already
    put N               one at a time, each committed
    many N BATCH        BATCH in one commit
    take N              claim one and ack it, N times
    threads N T         N puts, one at a time, by T threads at once
    work MS             one worker with a handler that does nothing, until all is done or time is up
    count               as many are left as were put and not taken
    listen              a worker begins to wait for messages
    idle MS             what that costs meanwhile
    ring N MS           N puts with gaps of about MS; when each was committed
    hear N              the worker ends when it has had N; when each reached its handler
    close

Whatever is taken must have been put, and not been taken before: else the answer is an error.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench._rounds import timed
from bench.peers.peer import Adapter, Payload, Peer, adapter

__all__ = ["Child"]

HEARD_MAX = 5  # seconds to wait for messages that do not come
Answer = dict[str, Any]


class Child:
    def __init__(self, which: Adapter, payloads: list[Payload]) -> None:
        self.which, self.payloads = which, payloads
        self.peer: Any = None
        self.next = 0
        self.inside: set[int] = set()  # the numbers of what was put and not taken
        self.heard: list[tuple[int, int]] = []
        self.stop = threading.Event()
        self.worker: threading.Thread | None = None
        self.orders: dict[str, Callable[..., Answer]] = {
            "open": self.open,
            "put": self.put,
            "many": self.many,
            "take": self.take,
            "threads": self.threads,
            "work": self.work,
            "count": self.count,
            "listen": self.listen,
            "idle": self.idle,
            "ring": self.ring,
            "hear": self.hear,
            "close": self.close,
        }

    def hello(self) -> Answer:
        named = self.which.package
        return {
            "title": self.which.title,
            "version": version(named) if named else "this tree",
            "default": self.which.default,
            "syncs": list(self.which.syncs),
            "acks": self.which.acks,
            "offers": list(self.which.offers),
        }

    def answer(self, line: str) -> Answer:
        word, *arguments = line.strip().split(maxsplit=3)
        try:
            return self.orders[word](*(int(a) if a.isdigit() else a for a in arguments))
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    # ---- one queue -------------------------------------------------------------------------------

    def open(self, sync: str, inside: int, folder: str) -> Answer:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.peer = self.which.open(Path(folder), sync)
        self.next, self.inside = inside, set(range(inside))
        return {}

    def close(self) -> Answer:
        peer: Peer = self.peer
        self.peer = None
        peer.close()
        return {}

    def following(self, n: int) -> list[Payload]:
        """The next `n` payloads; whoever asks for them puts them in."""
        found = self.payloads[self.next : self.next + n]
        assert len(found) == n, "there are not so many payloads"
        self.inside.update(range(self.next, self.next + n))
        self.next += n
        return found

    def took(self, payload: Payload) -> int:
        number = int(payload["number"])
        assert number in self.inside, f"message {number} was handed out twice, or never put"
        self.inside.remove(number)
        return number

    def measured(self, n: int, work: Callable[[], object]) -> Answer:
        gc.collect()
        spent = timed(work)
        return {"wall": spent.wall, "cpu": spent.cpu, "done": n}

    # ---- what is measured ------------------------------------------------------------------------

    def put(self, n: int) -> Answer:
        payloads, put = self.following(n), self.peer.put

        def each() -> None:
            for payload in payloads:
                put(payload)

        return self.measured(n, each)

    def many(self, n: int, batch: int) -> Answer:
        payloads, put_many = self.following(n), self.peer.put_many

        def each() -> None:
            for at in range(0, n, batch):
                put_many(payloads[at : at + batch])

        return self.measured(n, each)

    def take(self, n: int) -> Answer:
        take = self.peer.take
        taken: list[Payload | None] = []

        def each() -> None:
            taken.extend(take() for _ in range(n))

        answer = self.measured(n, each)
        for payload in taken:
            assert payload is not None, "nothing was handed out, and there was something"
            self.took(payload)
        return answer

    def threads(self, n: int, threads: int) -> Answer:
        """What fails is counted, and is not in the queue."""
        payloads, put = self.following(n), self.peer.put
        failures: list[tuple[int, str]] = []

        def some(first: int) -> None:
            put_some: list[Payload] = payloads[first::threads]
            for payload in put_some:
                try:
                    put(payload)
                except Exception as error:
                    failures.append((payload["number"], f"{type(error).__name__}: {error}"))

        crew = [threading.Thread(target=some, args=(first,)) for first in range(threads)]

        def all_of_them() -> None:
            for one in crew:
                one.start()
            for one in crew:
                one.join()

        answer = self.measured(n, all_of_them)
        self.inside.difference_update(number for number, _ in failures)
        if failures:
            answer |= {"done": n - len(failures), "failed": len(failures), "why": failures[0][1]}
        return answer

    def work(self, ms: int) -> Answer:
        stop, handled = threading.Event(), list[Payload]()
        last, all_of_them = time.monotonic() + ms / 1000, len(self.inside)

        def handle(payload: Payload) -> None:
            handled.append(payload)
            if len(handled) == all_of_them or time.monotonic() > last:
                stop.set()

        answer = self.measured(0, lambda: self.peer.work(handle, stop))
        for payload in handled:
            self.took(payload)
        return answer | {"done": len(handled)}

    def count(self) -> Answer:
        found = self.peer.count()
        assert found == len(self.inside), f"{found} are left, and it should be {len(self.inside)}"
        return {"done": found}

    # ---- who waits, and who wakes ----------------------------------------------------------------

    def listen(self) -> Answer:
        self.heard, self.stop = [], threading.Event()

        def handle(payload: Payload) -> None:
            self.heard.append((payload["number"], time.monotonic_ns()))

        self.worker = threading.Thread(target=self.peer.work, args=(handle, self.stop))
        self.worker.start()
        return {}

    def idle(self, ms: int) -> Answer:
        return self.measured(0, lambda: time.sleep(ms / 1000))

    def ring(self, n: int, ms: int) -> Answer:
        rung = []
        for payload in self.following(n):
            time.sleep(ms / 1000 * (0.5 + random.random()))
            self.peer.put(payload)
            rung.append((payload["number"], time.monotonic_ns()))
        return {"rung": rung}

    def hear(self, n: int) -> Answer:
        last = time.monotonic() + HEARD_MAX
        while len(self.heard) < n and time.monotonic() < last:
            time.sleep(0.01)
        self.stop.set()
        assert self.worker
        self.worker.join()
        numbers = [number for number, _ in self.heard]
        assert sorted(numbers) == list(range(n)), f"of {n} came {len(numbers)}"
        return {"heard": self.heard}


def main() -> None:
    name, bodies = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a queue prints is no answer

    def say(answer: Answer) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    lines = Path(bodies).read_text(encoding="utf-8").splitlines()
    child = Child(adapter(name), [json.loads(line) for line in lines])
    gc.freeze()
    say(child.hello())
    with suppress(KeyboardInterrupt):
        for line in sys.stdin:
            say(child.answer(line))
    os._exit(0)  # whatever thread a queue left behind


if __name__ == "__main__":
    main()
