"""
The core as C gives it, one thin word for each call: for what the public floor does not offer.

`START` is where the hand of the clock stands when a core is opened, in microseconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from fencepost._binding import pack
from fencepost._binding.calls import Core, OpenTx, checked
from fencepost._binding.lib import ffi, lib
from fencepost._binding.pack import Packed, Put, Take, Verdict

__all__ = ["START", "Held", "Put", "Verdict", "core", "define", "ffi", "held", "lib", "message"]
__all__ += ["ack", "die", "keyed", "look_after", "one", "opened", "put", "rows", "said", "settle"]
__all__ += ["state_of", "stats", "take", "tx"]

START = 1_800_000_000_000_000
SECOND = 1_000_000
REAL_CLOCK = -1


class Held(NamedTuple):
    """A claim: fp_step's record and its parts."""

    id: int
    token: int
    attempt: int
    queue: int
    kind: int
    enqueued_at: int
    due: int
    lease_end: int
    generation: int
    max_attempts: int
    lapsed: int
    life: int
    key: bytes | None
    lane: bytes | None
    headers: bytes | None
    body: bytes | None


def opened(path: Path, *, hand_us: int = START, patience: float = 30, **options: bool) -> Core:
    said = {"create": True, "wal": False, "network": False, "foreign_keys": False, "normal": False}
    return Core(str(path).encode(), hand_us=hand_us, patience=patience, **{**said, **options})


@contextmanager
def core(path: Path, *, hand_us: int = START, **options: Any) -> Iterator[Core]:
    one = opened(path, hand_us=hand_us, **options)
    try:
        yield one
    finally:
        one.close()


@contextmanager
def tx(core: Core) -> Iterator[OpenTx]:
    """Commits at the end of the block, rolls back if it raises."""
    begun = core.begin(30)
    try:
        yield begun
    except BaseException:
        begun.end(commit=False)
        raise
    begun.end(commit=True)


def define(core: Core, name: str, profile: int = lib.FP_PROFILE_JOB, **fields: int) -> int:
    """A queue without jitter, so that two runs write the same file."""
    return core.queue_define(None, name.encode(), profile, {"jitter_milli": 0, **fields})


def put(core: Core, queue: int, *bodies: bytes, tx: OpenTx | None = None, **columns: Any) -> Any:
    """Enqueues; the ids. `columns` as in `Put`."""
    return core.enqueue(tx, Put(queue, bodies or (b"body",), **columns))[0]


def keyed(core: Core, queue: int, key: bytes, body: bytes = b"a", **columns: Any) -> int:
    """Enqueues one under a key, a lasting one unless `life` says otherwise; its id."""
    digests = sha256(body).digest()
    (one,) = put(
        core, queue, body, keys=[key], digests=digests, **{"life": lib.FP_LIFE_LASTING, **columns}
    )
    return int(one)


def rows(found: Packed, parts: int) -> Iterator[tuple[Any, ...]]:
    """Records of which the last `parts` values are lengths, with those parts in their place."""
    at = 0
    for record in pack.records(found):
        cut, at = pack.parts(found.blob, at, record[-parts:])
        yield (*record[:-parts], *cut)


def held(found: Packed) -> list[Held]:
    return [Held(*row) for row in rows(found, 4)]


def take(core: Core, queues: int | Sequence[int], limit: int = 1, **options: Any) -> list[Held]:
    """Claims; `options` as in `Take`."""
    numbers = [queues] if isinstance(queues, int) else queues
    return held(core.step(None, Take(numbers, limit, **options))[1])


def settle(core: Core, *verdicts: Verdict, tx: OpenTx | None = None) -> list[int]:
    return core.settle(tx, verdicts)


def ack(core: Core, *claims: Held, tx: OpenTx | None = None) -> list[int]:
    flat = array("q", [number for claim in claims for number in (claim.id, claim.token)])
    return core.settle(tx, flat)


class Looked(NamedTuple):
    """A message as fp_get shows it."""

    id: int
    queue: int
    kind: int
    state: int
    attempt: int
    generation: int
    enqueued_at: int
    settled_at: int
    due: int
    life: int
    key: bytes | None
    lane: bytes | None
    failure_kind: bytes | None
    failure_code: bytes | None
    failure_text: bytes | None


def message(core: Core, id: int, tx: OpenTx | None = None) -> Looked | None:
    found = core.get(tx, id)
    for record in pack.records(found):
        cut, _ = pack.parts(found.blob, 0, record[10:15])
        row: tuple[Any, ...] = (*record[:10], *cut)
        return Looked(*row)
    return None


def state_of(core: Core, id: int) -> int | None:
    found = message(core, id)
    return None if found is None else found.state


class Stats(NamedTuple):
    """A queue as fp_stats shows it."""

    number: int
    profile: int
    paused: int
    pending: int
    waiting: int
    leased: int
    done: int
    dead: int
    unknown: int
    cancelled: int
    oldest_due: int
    next_due: int
    lapsed: int
    name: bytes


def stats(core: Core, queue: int) -> Stats:
    return next(Stats(*row) for row in rows(core.stats(), 1) if row[0] == queue)


def look_after(core: Core) -> bool:
    """Looks after the other workers now, and takes over one slice. Whether there may be more."""
    more = ffi.new("int32_t *")
    checked(lib.fp_look_after, core._store, more)
    return bool(more[0])


def die(core: Core) -> None:
    """To all others the handle is dead from here on; what it does next is a new worker's."""
    lib.fp_die(core._store)


def said(held: Held, verb: int, delay_us: int = 0) -> Verdict:
    """A verdict on a claim, without words."""
    return Verdict(held.id, held.token, verb, delay_us)


def one(core: Core, queue: int) -> Held:
    """A message that is claimed."""
    put(core, queue, b"a")
    return take(core, queue)[0]
