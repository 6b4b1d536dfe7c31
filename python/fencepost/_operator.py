"""
What an operator reads and does, in words and plain values: the command line and the dashboard show
the same, and neither has a second way to it.

Each action is one message at a time, and tells of each what became of it; what an operator saw is
named by its id and generation, so that of two who act on the same sight one does.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

import fencepost
from fencepost._binding import pack
from fencepost._file import file_of
from fencepost._worker.schedule import MISSED, following
from fencepost._workflow.runfile import RunFile
from fencepost._workflow.timeline import Timeline
from fencepost.envelope import HEADER, plain, without_envelope
from fencepost.errors import Gone, InvalidArgument, PayloadError
from fencepost.spans import moment as moment_of

REST: Final = "(others)"  # a queue's name cannot be told from it, but then it is not among the rest
STATES: Final = ("pending", "waiting", "leased", "done", "dead", "unknown", "cancelled")


# ---- reading -------------------------------------------------------------------------------------


def moment(text: str) -> datetime:
    """A moment in ISO 8601 with its zone: `2026-03-01T12:00:00Z`. `InvalidArgument` without one."""
    try:
        # Python 3.10 does not read a Z.
        found = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        raise InvalidArgument(f"{text} is no moment like 2026-03-01T12:00:00Z") from None
    if found.utcoffset() is None:
        raise InvalidArgument(f"{text} has no zone: end it with Z or +01:00")
    return found.astimezone(timezone.utc)


def as_json(value: object) -> Any:
    """What json.dumps does not know: moments."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    raise TypeError(type(value).__name__)


def message_told(message: fencepost.Message) -> dict[str, Any]:
    """Its fields, without payload and headers."""
    failure = message.failure
    return {**message._asdict(), "failure": failure._asdict() if failure else None}


def content_told(content: fencepost.Content) -> dict[str, Any]:
    """Payload, result, headers, and in a place of its own the envelope that is among them."""
    headers, envelope = content.headers, None
    with suppress(PayloadError):  # one that cannot be read stays the header that it is
        said = fencepost.Envelope.of(headers)
        headers, envelope = without_envelope(headers), plain(said) if HEADER in headers else None
    return {
        "headers": dict(headers),
        "envelope": envelope,
        "payload": value(content.body),
        "result": None if content.result is None else value(content.result),
    }


def value(body: bytes) -> Any:
    """The payload as the JSON value it is; other bytes as {"base64": …}."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return {"base64": base64.b64encode(body).decode("ascii")}


def run_told(run: fencepost.RunInfo) -> dict[str, Any]:
    """A run of a workflow, without what it was given, recorded and returned."""
    return {**run._asdict(), "failure": None if run.failure is None else run.failure._asdict()}


def timeline_told(found: Timeline) -> dict[str, Any]:
    """A run, the moment of the look, and its steps in the order in which they began."""
    steps = [
        {
            **bar._asdict(),
            "seconds": bar.seconds,
            "failure": None if bar.failure is None else bar.failure._asdict(),
        }
        for bar in found.bars
    ]
    return {**run_told(found.run), "at": found.at, "steps": steps}


def ended(queue: dict[str, Any]) -> int:
    """So many have ended and are kept; where nothing is kept, what left the line tells no rate."""
    return int(queue["done"] + queue["dead"] + queue["unknown"] + queue["cancelled"])


def bounded(told: dict[str, Any], most: int) -> dict[str, Any]:
    """`stats` of no more than so many queues, those with most in line; the rest is one."""

    def in_line(item: tuple[str, Any]) -> int:
        return -int(item[1]["pending"] + item[1]["waiting"] + item[1]["leased"])

    if len(told["queues"]) <= most:
        return told
    ranked = sorted(told["queues"].items(), key=in_line)
    kept, rest = dict(ranked[:most]), [queue for _, queue in ranked[most:]]
    counted = {name: sum(queue[name] for queue in rest) for name in (*STATES, "lapsed")}
    ages = [queue["oldest_age"] for queue in rest if queue["oldest_age"] is not None]
    kept[REST] = {**counted, "oldest_age": max(ages, default=None), "paused": False}
    return {**told, "queues": kept}


def schedules(store: fencepost.Store) -> list[dict[str, Any]]:
    """Recurring work, as its workers declared it, and when it is due next."""
    file = file_of(store)
    now = file.core.now()
    found, at, told = file.core.schedules(), 0, []
    for missed, last, running, *lengths in pack.records(found):
        parts, at = pack.parts(found.blob, at, lengths)
        name, job, words, zone = ((part or b"").decode("utf-8", "replace") for part in parts)
        due = following(words, zone, last, now)
        told.append(
            {
                "name": name,
                "job": job,
                "rule": words,
                "zone": zone,
                "missed": MISSED[missed],
                "fired_up_to": moment_of(last),
                "next": None if due is None else moment_of(due),
                "last_message": running or None,
            }
        )
    return told


def workers(store: fencepost.Store) -> list[dict[str, Any]]:
    """
    Handles that have claimed something and are not closed. `alive` is what the kernel says of their
    process; None where locks do not tell.
    """
    found, at, told = file_of(store).core.workers(), 0, []
    for number, pid, started, alive, length in pack.records(found):
        (machine,), at = pack.parts(found.blob, at, (length,))
        told.append(
            {
                "id": number,
                "pid": pid,
                "machine": (machine or b"").decode("utf-8", "replace"),
                "started": moment_of(started),
                "alive": None if alive < 0 else bool(alive),
            }
        )
    return told


# ---- doing ---------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """A message as somebody saw it; without a generation, as it is now."""

    id: int
    generation: int | None = None


class Outcome(NamedTuple):
    """What became of one message that something was to be done to."""

    id: int
    outcome: str


def replay(
    store: fencepost.Store,
    wanted: Iterable[Seen | fencepost.Message],
    *,
    delay: float = 0,
    rate: float | None = None,
    apply: bool = True,
) -> list[Outcome]:
    """Dead letters back in line, in one commit. As `Store.replay`, and "gone" for what is none."""
    known = {seen.id: _look_up(store, seen) for seen in wanted}
    found = [message for message in known.values() if message is not None]
    became = dict(store.replay(found, delay=delay, rate=rate, apply=apply))
    return [Outcome(id_, became.get(id_, "gone")) for id_ in known]


def cancel(store: fencepost.Store, wanted: Iterable[Seen]) -> list[Outcome]:
    """
    Out of the line: cancelled; ended (it was before); gone; moved (it is on a bulk queue, where
    only its holder can find it).
    """

    def act(message: fencepost.Message) -> str:
        return "cancelled" if store.cancel([message]) else "ended"

    answers = []
    for seen in wanted:
        try:
            answers += _each(store, [seen], act)
        except InvalidArgument:
            answers.append(Outcome(seen.id, "moved"))
    return answers


def confirm(store: fencepost.Store, wanted: Iterable[Seen], note: str = "") -> list[Outcome]:
    """Unknown sends have arrived: confirmed; not unknown (somebody dealt with it); gone."""

    def act(message: fencepost.Message) -> str:
        return "confirmed" if store.confirm([message], note=note) else "not unknown"

    return _each(store, wanted, act, "unknown")


def retry(
    store: fencepost.Store, wanted: Iterable[Seen], delay: float = 0, note: str = ""
) -> list[Outcome]:
    """Unknown sends have not arrived: replayed; not unknown; live key; gone."""

    def act(message: fencepost.Message) -> str:
        (answer,) = store.replay([message], delay=delay, note=note)
        dealt_with = answer.outcome in ("superseded", "not dead")
        return "not unknown" if dealt_with else answer.outcome

    return _each(store, wanted, act, "unknown")


def cancel_run(store: fencepost.Store, id: str) -> str:
    """And its children: cancelled; ended (it was before); gone."""
    try:
        return "cancelled" if RunFile(file_of(store), id).cancel(None) else "ended"
    except Gone:
        return "gone"


def resume_run(store: fencepost.Store, id: str) -> str:
    """Once more from the step that failed: resumed; not failed (nor parked); gone."""
    try:
        RunFile(file_of(store), id).resume()
    except Gone:
        return "gone"
    except InvalidArgument:
        return "not failed"
    return "resumed"


def _look_up(store: fencepost.Store, seen: Seen | fencepost.Message) -> fencepost.Message | None:
    if isinstance(seen, fencepost.Message):
        return seen
    message = store.message(seen.id)
    if message is None or seen.generation is None:
        return message
    return message._replace(generation=seen.generation)


def _each(
    store: fencepost.Store,
    wanted: Iterable[Seen],
    act: Callable[[fencepost.Message], str],
    state: str | None = None,
) -> list[Outcome]:
    """`act` on each that is there, and in that state."""
    answers = []
    for seen in wanted:
        message = _look_up(store, seen)
        if message is None:
            answers.append(Outcome(seen.id, "gone"))
        elif state is not None and message.state != state:
            answers.append(Outcome(seen.id, f"not {state}"))
        else:
            answers.append(Outcome(seen.id, act(message)))
    return answers
