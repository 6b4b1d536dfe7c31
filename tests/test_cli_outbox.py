"""What an operator says of deliveries that nobody can answer for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import Run, runner
from fencepost import App, Delivery, DeliveryUnknown
from fencepost.testing import override


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


@pytest.fixture
def unknown(path: Path) -> list[int]:
    """Three unknown ones, by their ids; the file is closed."""
    app = App()
    outbox = app.outbox("receipt", str, max_attempts=1)

    @outbox.handler
    def deliver(d: Delivery[str]) -> None:
        raise DeliveryUnknown("timed out")

    with override(app, path) as kit:
        ids = [outbox.send("https://a.example", f"payload {n}").id for n in range(3)]
        kit.drain()
        return ids


@pytest.fixture
def ask(run: Run, path: Path) -> Callable[..., Any]:
    def ask(*arguments: str, code: int = 0) -> Any:
        done = run("--database", str(path), "outbox", *arguments, "--json", code=code)
        return json.loads(done.stdout)

    return ask


def test_unknown_ones_are_listed_without_payload_and_destination(
    run: Run, path: Path, unknown: list[int]
) -> None:
    for more in ([], ["--json"], ["--topic", "receipt"]):
        said = run("--database", str(path), "outbox", "list-unknown", *more).stdout
        assert all(str(id_) in said for id_ in unknown)
        assert "timed out" in said
        assert "payload" not in said
        assert "example" not in said
    said = run("--database", str(path), "outbox", "list-unknown", "--topic", "x").stdout
    assert "timed out" not in said


def test_each_is_confirmed_or_retried_once(
    ask: Callable[..., Any], run: Run, path: Path, unknown: list[int]
) -> None:
    """A line for each; whoever comes second is told so, and the exit code tells, too."""
    first, second, third = map(str, unknown)

    def outcomes(*arguments: str, code: int = 0) -> list[tuple[int, str]]:
        return [(one["id"], one["outcome"]) for one in ask(*arguments, code=code)]

    said = outcomes("confirm-delivered", first, "--note", "seen there")
    assert said == [(unknown[0], "confirmed")]
    assert outcomes("retry", second, "--delay-seconds", "86400") == [(unknown[1], "replayed")]
    assert outcomes("retry", first, second, third, "99", code=1) == [
        (unknown[0], "not unknown"),
        (unknown[1], "not unknown"),
        (unknown[2], "replayed"),
        (99, "gone"),
    ]
    ask("confirm-delivered", second, code=1)
    shown = run("--database", str(path), "show", first).stdout
    assert "confirmed: seen there" in shown


def test_a_retry_keeps_its_note_until_it_has_arrived(
    ask: Callable[..., Any], run: Run, path: Path, unknown: list[int]
) -> None:
    """What failed before is forgotten; a note is longer than a thousand bytes nowhere."""
    first = str(unknown[0])
    run("--database", str(path), "outbox", "retry", first, "--note", "x" * 1001, code=1)
    ask("retry", first, "--note", "their log has it not")
    assert "replayed: their log has it not" in run("--database", str(path), "show", first).stdout
    app = App(path)
    outbox = app.outbox("receipt", str)
    outbox.handler(lambda d: None)
    with override(app, path) as kit:
        kit.advance(86_400)
        kit.drain()
        message = kit.store.message(unknown[0])
    assert message is not None
    assert (message.state, message.failure) == ("done", None)


@pytest.mark.parametrize(
    "arguments",
    [
        ("retry",),
        ("retry", "0"),
        ("retry", "1", "--delay-seconds", "86401"),
        ("confirm-delivered", "x"),
    ],
)
def test_what_is_said_wrongly_is_a_usage_error(
    run: Run, path: Path, unknown: list[int], arguments: tuple[str, ...]
) -> None:
    run("--database", str(path), "outbox", *arguments, code=2)
