"""Rows of docs/contract.md that are nobody else's subject."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any, get_args

import pytest

import fencepost
from fencepost import (
    App,
    Context,
    Delivery,
    DeliveryUnknown,
    Envelope,
    FailureKind,
    Fault,
    RetryLater,
    Run,
)
from fencepost.testing import Kit, override
from harness_worker import AT_ONCE, until

ROOT = Path(__file__).resolve().parent.parent
SECRET = "s3cret"


class Broken(fencepost.PermanentError):
    def __str__(self) -> str:
        return SECRET


def failing(app: App) -> None:
    """Everything goes wrong that can, and each message says something that nobody should read."""
    inbox = app.inbox("in", dict[str, str], backoff=AT_ONCE, max_attempts=2)
    outbox = app.outbox("out", str, backoff=AT_ONCE, max_attempts=2)
    said = {"headers": {"h": SECRET}, "lane": SECRET}

    @app.job(context=True, max_attempts=2, backoff=AT_ONCE)
    def work(ctx: Context, how: str) -> None:
        ctx.progress(SECRET)
        raise {"later": RetryLater(SECRET, delay=0)}.get(how, OSError(SECRET))

    @inbox.handler
    def came(ctx: Context, event: dict[str, str]) -> None:
        raise Broken(SECRET)

    @outbox.handler
    def deliver(d: Delivery[str]) -> None:
        raise DeliveryUnknown(SECRET) if d.attempt == 1 else ConnectionError(SECRET)

    def step(said: str) -> None:
        raise ConnectionError(said)

    @app.workflow(max_attempts=2, backoff=AT_ONCE)
    async def flow(run: Run, said: str) -> None:
        await run.options(max_attempts=2, backoff=AT_ONCE).step("step", step, said)

    flow.start(SECRET)
    work.options(key=f"k {SECRET}").enqueue(SECRET)
    inbox.accept(f"1 {SECRET}", {"a": SECRET}, **said)  # type: ignore[arg-type]
    inbox.accept(f"2 {SECRET}", f'"{SECRET}"'.encode(), **said)  # type: ignore[arg-type]
    inbox.accept(f"3 {SECRET}", None, envelope=Envelope(SECRET, fault=Fault(SECRET)))
    inbox.accept(f"4 {SECRET}", {}, envelope=Envelope(SECRET, version=9))
    outbox.send(SECRET, SECRET, envelope=Envelope(trace=SECRET), **said)  # type: ignore[arg-type]


def test_no_log_says_what_a_message_says(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """
    Neither payload nor header, key, lane, destination, argument or what an exception says; the
    store has all that. Of a real worker, with all that it logs.
    """
    caplog.set_level(logging.DEBUG)
    app = App(path)
    failing(app)
    with app.worker(threads=2):
        until(lambda: in_line(app) == 0)
    logged = [record for record in caplog.records if record.name.startswith("fencepost")]
    assert len(logged) > 5
    whole = logging.Formatter("%(message)s")
    assert not [record for record in logged if SECRET in whole.format(record)]
    assert not [record for record in logged if SECRET in repr(record.args)]
    failures = [one.failure for one in app.store.messages("dead")]
    assert any(failure is not None and SECRET in failure.text for failure in failures)
    app.store.close()


def in_line(app: App) -> int:
    counts = app.store.stats()["totals"]
    return int(counts["pending"] + counts["waiting"] + counts["leased"])


def test_what_was_accepted_does_not_change_with_what_was_given(app: App, kit: Kit) -> None:
    """Payload, headers and envelope are written when they are given."""
    inbox = app.inbox("in", dict[str, Any])
    seen: list[Any] = []

    @inbox.handler(faults=True)
    def came(ctx: Context, event: dict[str, Any] | Fault) -> None:
        seen.append((event, dict(ctx.headers)))

    payload: dict[str, Any] = {"a": [1]}
    headers, details = {"h": "1"}, {"d": [1]}
    inbox.accept("1", payload, headers=headers)
    inbox.accept("2", None, envelope=Envelope(fault=Fault("f", details=details)))
    payload["a"].append(2)
    headers["h"] = "2"
    details["d"].append(2)
    kit.drain()
    assert seen == [({"a": [1]}, {"h": "1"}), (Fault("f", details={"d": [1]}), {})]


def test_what_came_in_may_wait_go_first_and_be_taken_back(app: App, kit: Kit) -> None:
    """Delay, priority, cancel, and a list of what is in line."""
    inbox = app.inbox("in", int)
    seen: list[int] = []

    @inbox.handler
    def came(ctx: Context, n: int) -> None:
        seen.append(n)

    inbox.accept("late", 1, delay=60)
    inbox.accept("normal", 2)
    inbox.accept("first", 3, priority=5)
    inbox.accept("never", 4)
    pending = {one.key: one for one in kit.store.messages("pending", queue="in")}
    assert set(pending) == {"late", "normal", "first", "never"}
    assert kit.store.cancel([pending["never"]]) == 1
    kit.drain()
    assert seen == [3, 2]
    assert inbox.accept("never", 4) == "duplicate", "its sender need not know"
    kit.drain(until_idle=True)
    assert seen == [3, 2, 1]


# ---- words ---------------------------------------------------------------------------------------

C_KIND = re.compile(r'kind = LITERAL\("(\w+)"\)')
SAYS_ONE = r"\b(?:failed|failure|later|retry|unknown|Unfit|_open)\((?:[^()\"]|\([^()]*\))*"
PYTHON_KIND = re.compile(rf"(?:{SAYS_ONE}|kind if [^\"]*)\"(\w+)\"")


def test_failure_kinds_are_those_that_are_written() -> None:
    """`FailureKind`, the sources, and the page that explains them say the same."""
    written: set[str] = set()
    for folder, suffix, pattern in (("csrc", "c", C_KIND), ("python", "py", PYTHON_KIND)):
        for file in sorted((ROOT / folder).rglob(f"*.{suffix}")):
            if "sqlite" not in file.parts:
                written |= set(pattern.findall(file.read_text(encoding="utf-8")))
    assert written == set(get_args(FailureKind))
    page = (ROOT / "docs" / "decisions" / "failure-kinds.md").read_text(encoding="utf-8")
    told = {
        word
        for line in page.splitlines()
        if line.startswith("| `")
        for word in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert told == written


def test_each_kind_is_what_a_message_can_show(path: Path) -> None:
    """Of those that need no worker's death: they come out as they are called."""
    app = App()
    with override(app, path) as kit:
        failing(app)
        kit.drain(until_idle=True)
        found = [one.failure for state in ("dead", "unknown") for one in kit.store.messages(state)]
    kinds = {failure.kind for failure in found if failure is not None}
    assert kinds == {"error", "undecodable", "fault", "unsupported_version"}
