"""
Enqueue, and claim + ack, through Python: beside the same statements in pure C, and beside the
queue that one writes by hand on the standard library.

    python bench/bench_queue.py [full] [normal] [BATCH …]    the real sizes, some minutes
    pytest bench                                             the smoke sizes, once

All variants carry the same payloads and end with the same Python objects, except two: `core`
begins and ends with bytes in C, `python bytes` begins and ends with bytes in Python. `hand` uses
the standard library's json, `hand msgspec` the codec that Fencepost brings, so that what is left
of the difference is the queue.
"""

from __future__ import annotations

import gc
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

import fencepost
from _c import driver
from _hand import HandQueue
from _rounds import Bytes, Figure, Spent, file_system, refuse_test_core, rotated, timed, work_hash
from fencepost.codec import JSON

SMOKE = {"messages": 20, "rounds": 1}
REAL = {"messages": 20_000, "rounds": 15}
BATCHES = (1000, 100, 10, 1)
FEWER = 20  # where each message is a call of its own, a twentieth of them will do

Payload = Any


def payload(number: int) -> dict[str, Any]:
    """About 200 bytes of JSON."""
    return {
        "order": 1_000_000 + number,
        "customer": f"customer-{number % 977}@example.com",
        "amount": round(number * 1.37 % 500, 2),
        "items": ["tea", "honey", "lemon"],
        "paid": number % 3 == 0,
        "note": "Please leave the parcel with the neighbours if nobody is at home.",
    }


def order(one: dict[str, Any]) -> int:
    number: int = one["order"]
    return number


class Variant(Protocol):
    def enqueue(self, payloads: list[Payload], batch: int) -> None: ...
    def carry(self, batch: int, look: Callable[[Payload], Any]) -> list[Any]: ...
    def close(self) -> None: ...


class Ours:
    """Fencepost through Python."""

    def __init__(self, path: Path, sync: str, codec: fencepost.Codec = JSON) -> None:
        durability: Any = sync.lower()
        self.store = fencepost.open(path, durability=durability, codec=codec)
        self.queue = self.store.queue("q")

    def enqueue(self, payloads: list[Payload], batch: int) -> None:
        if batch == 1:
            for one in payloads:
                self.queue.enqueue(one)
        else:
            for at in range(0, len(payloads), batch):
                self.queue.enqueue_many(payloads[at : at + batch])

    def carry(self, batch: int, look: Callable[[Payload], Any]) -> list[Any]:
        """Claim, look at each payload and let it go, ack: until nothing is left."""
        carried: list[Any] = []
        while claims := self.queue.claim(batch):
            carried += [look(claim.payload) for claim in claims]
            assert self.queue.ack(claims) == []
        return carried

    def close(self) -> None:
        self.store.close()


class Hand:
    """The hand-written one."""

    def __init__(self, path: Path, sync: str, **codec: Callable[[Any], Any]) -> None:
        self.queue = HandQueue(path, sync=sync, **codec)

    def enqueue(self, payloads: list[Payload], batch: int) -> None:
        for at in range(0, len(payloads), batch):
            self.queue.enqueue_many(payloads[at : at + batch])

    def carry(self, batch: int, look: Callable[[Payload], Any]) -> list[Any]:
        carried: list[Any] = []
        while claims := self.queue.claim(batch):
            carried += [look(claim.payload) for claim in claims]
            assert self.queue.ack(claims) == len(claims)
        return carried

    def close(self) -> None:
        self.queue.close()


class Core:
    """Pure C, in a process of its own."""

    def __init__(self, path: Path, sync: str, bodies: Path, messages: int) -> None:
        self.messages = messages
        command = [str(driver("carry")), str(path), sync.lower(), str(bodies)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def order(self, what: str, batch: int) -> Spent:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{what} {batch}\n")
        self.process.stdin.flush()
        wall, cpu, done = map(int, self.process.stdout.readline().split())
        assert done == self.messages, f"{what}: {done} of {self.messages} bodies as they should be"
        return Spent(wall, cpu)

    def close(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0


class Race:
    """All variants, on files of their own in one folder, with the same payloads."""

    def __init__(self, folder: Path, sync: str, messages: int, stack: ExitStack) -> None:
        self.payloads = [payload(number) for number in range(messages)]
        self.bodies = [JSON.encode(one) for one in self.payloads]
        lengths = struct.pack(f"={messages + 1}I", messages, *map(len, self.bodies))
        (folder / "bodies").write_bytes(lengths + b"".join(self.bodies))
        self.core = Core(folder / "core.db", sync, folder / "bodies", messages)
        stack.callback(self.core.close)
        self.variants: dict[str, Variant] = {
            "python bytes": Ours(folder / "bytes.db", sync, Bytes()),
            "python": Ours(folder / "python.db", sync),
            "hand": Hand(folder / "hand.db", sync),
            "hand msgspec": Hand(folder / "m.db", sync, encode=JSON.encode, decode=decoded),
        }
        for variant in self.variants.values():
            stack.callback(variant.close)

    def round(self, name: str, batch: int) -> tuple[Spent, Spent]:
        """Fill one queue and empty it again."""
        if name == "core":
            return self.core.order("enqueue", batch), self.core.order("carry", batch)
        variant = self.variants[name]
        raw = name == "python bytes"
        given = self.bodies if raw else self.payloads
        look: Callable[[Payload], Any] = len if raw else order
        expected = [look(one) for one in given]
        carried: list[Any] = []
        filled = timed(lambda: variant.enqueue(given, batch))
        emptied = timed(lambda: carried.extend(variant.carry(batch, look)))
        assert carried == expected, f"{name} delivered something else"
        return filled, emptied

    def verify(self) -> None:
        """In full, and outside of all clocks: the payloads that come out are those put in."""
        for name, variant in self.variants.items():
            given = self.bodies if name == "python bytes" else self.payloads
            variant.enqueue(given, 1000)
            assert variant.carry(1000, lambda one: one) == given

    def run(self, batch: int, rounds: int) -> dict[str, dict[str, Figure]]:
        """Figures by operation and variant."""
        self.verify()
        names = ["core", *self.variants]
        found = {
            operation: {name: Figure(len(self.payloads)) for name in names}
            for operation in ("enqueue", "claim+ack")
        }
        gc.collect()
        gc.freeze()  # what the bench itself holds is no business of the collector's
        for number in range(rounds):
            for name in rotated(names, number):
                filled, emptied = self.round(name, batch)
                found["enqueue"][name].rounds.append(filled)
                found["claim+ack"][name].rounds.append(emptied)
        gc.unfreeze()
        return found


def decoded(body: bytes) -> Any:
    return JSON.decode(body, Any)


@contextmanager
def race(folder: Path, sync: str, messages: int) -> Iterator[Race]:
    with ExitStack() as stack:
        yield Race(folder, sync, messages, stack)


@pytest.mark.parametrize("batch", BATCHES)
def test_all_variants_do_the_same_work(benchmark: Any, tmp_path: Path, batch: int) -> None:
    """Every variant delivers the payloads that went in, in their order, once."""
    with race(tmp_path, "NORMAL", SMOKE["messages"]) as one:
        benchmark.pedantic(one.run, args=(batch, SMOKE["rounds"]), rounds=1)


def say(operation: str, found: dict[str, Figure]) -> None:
    for name, figure in found.items():
        print(
            f"  {operation:<9} {name:<12} {figure!s:<52}"
            f" x core {figure.times(found['core'])}, x python {figure.times(found['python'])}"
        )


def main() -> None:
    refuse_test_core()
    syncs = [word.upper() for word in sys.argv[1:] if not word.isdigit()] or ["NORMAL", "FULL"]
    batches = [int(word) for word in sys.argv[1:] if word.isdigit()] or BATCHES
    for sync in syncs:
        for batch in batches:
            messages = REAL["messages"] // (FEWER if batch == 1 else 1)
            with tempfile.TemporaryDirectory(dir=".") as name, ExitStack() as stack:
                one = Race(Path(name), sync, messages, stack)
                found = one.run(batch, REAL["rounds"])
                size = sum(map(len, one.bodies)) / messages
                print(
                    f"carry batch={batch} messages={messages} payload={size:.0f}B sync={sync}"
                    f" fs={file_system(Path(name))} rounds={REAL['rounds']}"
                    f" hash={work_hash(one.bodies)}"
                )
                for operation, figures in found.items():
                    say(operation, figures)


if __name__ == "__main__":
    main()
