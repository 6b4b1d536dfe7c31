"""Messages that have ended, and the spans they are kept for."""

from __future__ import annotations

from fencepost._binding.calls import Core
from harness_core import SECOND, START, Put, Verdict, lib, put, settle, take

HOUR = 3600 * SECOND
DAY = 24 * HOUR
WEEK = 7 * DAY
FOREVER = START + 10_000 * DAY

BULK = {"profile": lib.FP_PROFILE_QUEUE}


def end(core: Core, queue: int, *keys: bytes, verb: int = lib.FP_ACK) -> list[int]:
    """Puts a message for each key (all lasting), and ends them all in one commit."""
    ids = put(core, queue, *[b"body"] * len(keys), keys=keys, life=lib.FP_LIFE_LASTING)
    claims = take(core, queue, len(keys))
    assert [claim.id for claim in claims] == ids
    answers = settle(core, *[Verdict(claim.id, claim.token, verb) for claim in claims])
    assert answers == [lib.FP_DONE] * len(keys)
    return list(ids)


def again(core: Core, queue: int, key: bytes, equal: int = 0) -> tuple[int, bool]:
    """Puts a message under the key: the owner's id, and whether it is a new one."""
    equal = equal or lib.FP_EQUAL_RETURN
    one = Put(queue, [b"body"], keys=[key], life=lib.FP_LIFE_LASTING, equal=equal)
    ids, created = core.enqueue(None, one)
    return ids[0], bool(created[0])
