"""What stands in a file before an operation: small scenes, the same each time they are set."""

from __future__ import annotations

from fencepost._binding.calls import Core
from fencepost._binding.guest import Guest
from fencepost._binding.pack import Fired
from fencepost._binding.shelf import Shelf
from harness_core import START, Held, Verdict, ack, define, die, lib, put, settle, take, tx

LEASE = 30_000_000
LATER = START + 10 * LEASE
MONTH_LATER = START + 30 * 86_400_000_000


def jobs(core: Core, **fields: int) -> int:
    return define(core, "jobs", lib.FP_PROFILE_JOB, **fields)


def bulk(core: Core) -> int:
    return define(core, "bulk", lib.FP_PROFILE_QUEUE)


def some(core: Core) -> int:
    """Three pending jobs."""
    queue = jobs(core)
    put(core, queue, b"a", b"b", b"c")
    return queue


def one_held(core: Core) -> Held:
    return take(core, some(core))[0]


def bulk_held(core: Core) -> list[Held]:
    queue = bulk(core)
    put(core, queue, b"a", b"b", b"c")
    return take(core, queue, 2)


def keyed(core: Core) -> int:
    queue = jobs(core)
    put(core, queue, b"a", keys=[b"old"], life=lib.FP_LIFE_LASTING)
    put(core, queue, b"u", keys=[b"live"], life=lib.FP_LIFE_LIVE)
    return queue


def laned(core: Core) -> int:
    """Lane x with its head in the line and one behind it; halts behind a dead head."""
    queue = jobs(core, on_dead=1, max_attempts=1)
    lives = bytes([lib.FP_LIFE_LIVE, lib.FP_LIFE_LIVE])
    put(core, queue, b"1", b"2", lanes=[b"x", b"x"], keys=[b"k1", b"k2"], lives=lives)
    return queue


def all_sorts_held(core: Core) -> list[Held]:
    """Claims of plain, keyed and laned messages of one queue, some lanes with a second behind."""
    queue = jobs(core)
    lanes = [None, b"x", b"x", b"y", None, b"y", None]
    keys = [None, b"k1", b"k2", None, b"k3", None, None]
    lives = bytes([lib.FP_LIFE_LIVE] * 4 + [lib.FP_LIFE_LASTING] * 3)
    put(core, queue, *[b"body"] * 7, lanes=lanes, keys=keys, lives=lives)
    return take(core, queue, 10)


def laned_held(core: Core) -> Held:
    return take(core, laned(core))[0]


def dead(core: Core) -> list[int]:
    """Two dead letters, one of a lane and with a live key."""
    queue = jobs(core)
    ids = put(core, queue, b"a", b"b", lanes=[None, b"x"], keys=[None, b"k"], life=lib.FP_LIFE_LIVE)
    held = take(core, queue, 2)
    settle(core, *(fail(claim) for claim in held))
    put(core, queue, b"behind", lanes=[b"x"])
    return [int(number) for number in ids]


def ended(core: Core) -> int:
    """Outcomes of every sort, old enough to go."""
    listed, plain = keyed(core), bulk(core)
    put(core, plain, b"k", keys=[b"once"], life=lib.FP_LIFE_LASTING)
    ack(core, *take(core, [listed, plain], 3))
    put(core, listed, b"c")
    (last,) = take(core, listed)
    core.progress(None, last.id, b"half")
    core.cancel(None, [last.id])
    core.hand(MONTH_LATER)
    return listed


def fail(claim: Held) -> Verdict:
    return Verdict(claim.id, claim.token, lib.FP_FAIL, 0, None, b"error", b"E", b"it broke")


def say(claim: Held, verb: int, delay_us: int = 0) -> Verdict:
    return Verdict(claim.id, claim.token, verb, delay_us, None, b"error", None, b"not yet")


def outbox(core: Core, **fields: int) -> int:
    return define(core, "outbox", lib.FP_PROFILE_OUTBOX, **fields)


def sending(core: Core) -> list[Held]:
    """Claims of two deliveries, the first one begun; its lane halts for it, and one waits in it."""
    queue = outbox(core, on_dead=1, max_attempts=1)
    put(core, queue, b"a", b"b", b"c", lanes=[b"x", None, b"x"], keys=[b"k", None, None], life=2)
    held = take(core, queue, 2)
    core.settle(None, [Verdict(held[0].id, held[0].token, lib.FP_BEGIN, -1)])
    return held


def inbox(core: Core) -> int:
    """One that came, under its id, with what its digest is made of."""
    queue = define(core, "inbox", lib.FP_PROFILE_INBOX)
    put(core, queue, b"{}", keys=[b"42"], life=lib.FP_LIFE_LASTING, digests=b"d" * 32)
    return queue


def inbox_held(core: Core) -> Held:
    """And a table for its handler's rows."""
    with tx(core) as begun, Guest(begun, "CREATE TABLE mine (id INTEGER PRIMARY KEY)") as guest:
        guest.run(1, b"")
    return take(core, inbox(core))[0]


def inbox_late(core: Core) -> tuple[Held, Held]:
    """Claimed twice: the first claim is lost."""
    held = inbox_held(core)
    core.hand(held.lease_end)
    return held, take(core, held.queue)[0]


def fired(core: Core) -> int:
    """A schedule that has fired; its job's kind."""
    queue, kind = jobs(core), core.kind(None, b"clean")
    put(core, queue, b"{}", kind=kind)
    core.schedule_keep(None, Fired(b"clean daily", b"0 2 * * *", b"UTC", kind, 0, START, 0))
    return kind


def full(core: Core) -> int:
    """Nobody else finds room."""
    queue = jobs(core, max_size=2)
    put(core, queue, b"a", b"b")
    return queue


def sender_lost(core: Core) -> list[Held]:
    """The same, and long after the leases have run out."""
    held = sending(core)
    core.hand(LATER)
    return held


def unknown(core: Core) -> Held:
    first, _ = sending(core)
    settle(core, say(first, lib.FP_UNKNOWN))
    return first


def wakeup(core: Core) -> int:
    """One that is due in ten seconds, under its live key."""
    queue = define(core, "wake", lib.FP_PROFILE_WAKEUP)
    put(core, queue, b"w", keys=[b"run"], life=lib.FP_LIFE_LIVE, delay_us=10_000_000)
    return queue


def wakeup_held(core: Core) -> tuple[int, Held]:
    queue = wakeup(core)
    core.hand(LATER)
    return queue, take(core, queue)[0]


def rearmed_held(core: Core) -> tuple[int, Held]:
    queue, held = wakeup_held(core)
    put(core, queue, b"w", keys=[b"run"], life=2)
    return queue, held


def bulk_some(core: Core) -> int:
    queue = bulk(core)
    put(core, queue, b"a", b"b", b"c")
    return queue


def lapsed(core: Core) -> int:
    queue = jobs(core)
    put(core, queue, b"a")
    take(core, queue)
    core.hand(LATER)
    return queue


def limited(core: Core) -> int:
    """Three pending jobs, a rate, and two places."""
    queue = jobs(core, concurrency=2, rate_milli=1_000_000)
    put(core, queue, b"a", b"b", b"c")
    return queue


def occupied(core: Core) -> int:
    """The one place is that of a lease that has run out; others have been due for longer."""
    queue = jobs(core, concurrency=1)
    put(core, queue, b"a")
    take(core, queue)
    put(core, queue, b"b", b"c")
    core.hand(LATER)
    return queue


def orphaned(core: Core, jobs: int = 3) -> int:
    """Jobs that a worker held when it died, between one that is pending and one that is delayed."""
    queue = some(core)
    put(core, queue, b"delayed", delay_us=LEASE // 2)
    assert len(take(core, queue, jobs)) == jobs
    die(core)
    return queue


def one_orphaned(core: Core) -> int:
    return orphaned(core, 1)


def used_up(core: Core) -> int:
    """The head of a lane and a lone one, both used up by workers that never answered."""
    queue = laned(core)
    put(core, queue, b"alone")
    assert len(take(core, queue, 2)) == 2
    put(core, queue, b"healthy", delay_us=11 * LEASE)
    core.hand(LATER + 2 * LEASE)
    return queue


def ids_of(core: Core) -> list[int]:
    return [int(one) for one in put(core, jobs(core), b"a", b"b", keys=[b"k", None], life=2)]


def waiting(core: Core) -> int:
    """The id of the second in its lane."""
    (one,) = put(core, laned(core), b"", keys=[b"k2"], life=2, equal=lib.FP_EQUAL_RETURN)
    return int(one)


def progressed(core: Core) -> int:
    return one_held(core).id


def halted(core: Core) -> int:
    held = laned_held(core)
    settle(core, fail(held))
    return held.queue


def shelf(core: Core) -> Shelf:
    """Two records, and one on the next shelf."""
    Shelf(core, "shelg").put(None, {"a": b"other"})
    one = Shelf(core, "shelf")
    one.put(None, {"a": b"1", "c": b"3"})
    return one
