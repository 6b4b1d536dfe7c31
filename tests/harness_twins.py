"""Two files that are made alike: one is told by the core what the other is through the door."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from harness_core import Held, Verdict, define, lib, opened, put, settle, take
from harness_door import FAR, Door, Refused
from harness_ladder import findings, fingerprint
from harness_outside import Outside

SECOND = 1_000_000
LASTING, LIVE = lib.FP_LIFE_LASTING, lib.FP_LIFE_LIVE
LIVES = {LASTING: "lasting", LIVE: "live"}

PROFILES = {
    "queue": lib.FP_PROFILE_QUEUE,
    "job": lib.FP_PROFILE_JOB,
    "outbox": lib.FP_PROFILE_OUTBOX,
    "inbox": lib.FP_PROFILE_INBOX,
    "wakeup": lib.FP_PROFILE_WAKEUP,
}


class Twins:
    """Two files that were made alike: what one is told by the core, the other is by the door."""

    def __init__(self, folder: Path, outside: Outside) -> None:
        self.paths = folder / "core.db", folder / "door.db"
        self.core, self.other = (opened(path, hand_us=FAR, normal=True) for path in self.paths)
        self.door = Door(self.paths[1])
        self.outside = outside
        self.names: dict[int, tuple[str, int]] = {}
        self.kinds: dict[int, str] = {}

    def close(self) -> None:
        self.door.__exit__(None, None, None)
        self.core.close()
        self.other.close()

    def both(self, what: Any) -> Any:
        """What is done to both by the core, and must have the same answer."""
        one, two = what(self.core), what(self.other)
        assert one == two
        return one

    def define(self, name: str, profile: int, **fields: int) -> int:
        number: int = self.both(lambda core: define(core, name, profile, **fields))
        self.names[number] = name, profile
        return number

    def kind(self, queue: int) -> int:
        """Jobs have a name."""
        if self.names[queue][1] != lib.FP_PROFILE_JOB:
            return 0
        number: int = self.both(lambda core: core.kind(None, b"job"))
        self.kinds[number] = "job"
        return number

    def put(self, queue: int, body: bytes = b"{}", **said: Any) -> int | None:
        """One message by each; None: both refused it."""
        kind = self.kind(queue)
        lane, key, headers = said.get("lane"), said.get("key"), said.get("headers")
        life = said.get("life", LASTING) if key else 0
        columns: dict[str, Any] = {
            "kind": kind,
            "keys": [key] if key else None,
            "life": life,
            "lanes": [lane] if lane else None,
            "headers": [headers] if headers else None,
            "priority": said.get("priority", 0),
            "delay_us": round(said.get("delay", 0) * SECOND),
            "max_attempts": said.get("max_attempts", -1),
        }
        told = {
            "queue": self.names[queue][0],
            "kind": self.kinds.get(kind),
            "body": body,
            "headers": headers,
            "max_attempts": said.get("max_attempts"),
            "priority": said.get("priority"),
            "delay": said.get("delay"),
            "lane": lane and lane.decode(),
            "key": key and key.decode(),
            "life": LIVES[life] if key else None,
        }
        answer: int | None
        try:
            (answer,) = put(self.core, queue, body, **columns)
        except Exception:
            with pytest.raises(Refused):
                self.door.enqueue(**told)
            answer = None
        else:
            self.door.enqueue(**told)
        return answer

    def same(self) -> None:
        one, two = (fingerprint(self.outside.dump(path)) for path in self.paths)
        assert one == two
        assert findings(self.core) == ""
        assert findings(self.other) == ""


DAY = 86_400 * SECOND
QUEUES: dict[str, tuple[str, dict[str, int]]] = {
    "bulk": ("queue", {"max_attempts": 2}),
    "kept": ("queue", {"keep_us": DAY, "lane_width": 2, "max_age_us": 40 * SECOND}),
    "jobs": ("job", {"max_attempts": 3, "base_us": 3 * SECOND, "factor_milli": 1500}),
    "halts": ("job", {"on_dead": 1, "max_attempts": 2, "lane_width": 2, "max_size": 6}),
    "unlisted": ("outbox", {"listed": 0, "base_us": SECOND, "cap_us": 2 * SECOND}),
    "strict": ("inbox", {"keep_us": 0}),
    "wakeups": ("wakeup", {}),
}


class History:
    """One story, told to both."""

    def __init__(self, twins: Twins) -> None:
        self.twins = twins
        self.queues = [
            twins.define(name, PROFILES[profile], **fields)
            for name, (profile, fields) in QUEUES.items()
        ]
        self.clock = twins.define("clock", PROFILES["queue"])
        self.now = FAR
        self.ids = [0]
        self.claims: list[Held] = []

    def tell(self, verb: str, *rest: Any) -> None:
        getattr(self, verb.replace(" ", "_"))(*rest)

    def put(self, pick: int, body: bytes, said: dict[str, Any]) -> None:
        id_ = self.twins.put(self.queues[pick % len(self.queues)], body, **said)
        self.ids += [id_] if id_ is not None else []

    def claim(self, pick: int, limit: int, lease: int) -> None:
        queue = self.queues[pick % len(self.queues)]
        self.claims += self.twins.both(
            lambda core: take(core, queue, limit, lease_us=lease * SECOND)
        )

    def ack(self, pick: int, result: bytes | None, hint: bool) -> None:
        self.settle(pick, lib.FP_ACK, "ack", hint, result=result)

    def retry(self, pick: int, delay: int | None, failure: dict[str, str], hint: bool) -> None:
        self.settle(pick, lib.FP_RETRY, "retry", hint, delay=delay, **failure)

    def release(self, pick: int, delay: int | None, hint: bool) -> None:
        self.settle(pick, lib.FP_RELEASE, "release", hint, delay=delay)

    def fail(self, pick: int, failure: dict[str, str], hint: bool) -> None:
        self.settle(pick, lib.FP_FAIL, "fail", hint, **{"failure_kind": "error", **failure})

    def holder_cancels(self, pick: int, hint: bool) -> None:
        self.settle(pick, lib.FP_CANCEL, "cancel", hint)

    def settle(self, pick: int, verb: int, word: str, hint: bool, **columns: Any) -> None:
        if not self.claims:
            return
        held = self.claims[-1 - pick % min(len(self.claims), 6)]
        kind, code, text = (columns.get(f"failure_{part}") for part in ("kind", "code", "text"))
        if kind is None and (code is not None or text is not None):
            kind = "error"
        delay = columns.get("delay")
        own = -1 if word == "retry" else 0
        verdict = Verdict(
            held.id,
            held.token,
            verb,
            own if delay is None else delay * SECOND,
            columns.get("result"),
            *(None if part is None else part.encode() for part in (kind, code, text)),
        )
        (answer,) = settle(self.twins.core, verdict)
        if hint or held.lease_end <= self.now:
            columns["lease_end"] = held.lease_end
        if answer == lib.FP_LOST:
            with pytest.raises(Refused, match="lease lost"):
                self.twins.door.settle(held.id, held.token, word, **columns)
        else:
            self.twins.door.settle(held.id, held.token, word, **columns)

    def renew(self, pick: int) -> None:
        if self.claims:
            held = self.claims[-1 - pick % min(len(self.claims), 6)]
            verdict = Verdict(held.id, held.token, lib.FP_RENEW, 60 * SECOND)
            self.twins.both(lambda core: settle(core, verdict))

    def own_acks(self, count: int) -> None:
        """By the handle itself, of claims that the door may have ended or moved unheard of."""
        flat = array("q", [number for held in self.claims[-count:] for number in held[:2]])
        self.twins.both(lambda core: core.settle(None, flat))

    def cancel(self, pick: int) -> None:
        """By its id; what a handle gave out of a bulk queue is found by that handle alone."""
        id_ = self.ids[pick % len(self.ids)]
        if any(held.id == id_ and held.queue in self.queues[:2] for held in self.claims):
            return
        (answer,) = self.twins.core.cancel(None, [id_])
        if answer == lib.FP_INVALID:
            with pytest.raises(Refused, match="only an addressed queue"):
                self.twins.door.settle(id_, None, "cancel")
        else:
            self.twins.door.settle(id_, None, "cancel")

    def replay(self, pick: int) -> None:
        pair = array("q", [self.ids[pick % len(self.ids)], -1])
        self.twins.both(lambda core: core.replay(pair, 0, 0, apply=True))

    def advance(self, span: int) -> None:
        """The moment is written, as the door knows no other."""
        self.now += span * SECOND
        self.twins.both(lambda core: core.hand(self.now))
        self.twins.both(lambda core: put(core, self.clock, b""))
