"""`fencepost workflow`: as an operator would, with nothing but the file."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from commands import runner
from fencepost import App, JobFailed, Run, Workflow
from fencepost._workflow.timeline import timeline
from fencepost.cli.timeline import drawn, span
from harness_worker import AT_ONCE, until, worked


class Shop:
    """An App with a workflow that waits, and a command line over its file."""

    def __init__(self, folder: Path) -> None:
        self.app = App(folder / "app.db")
        self.broken = True
        declare = self.app.workflow(name="refund", max_attempts=1, backoff=AT_ONCE)
        self.flow: Workflow[[int], str] = declare(self._flow)
        self._run = runner(folder)

    async def _flow(self, run: Run, order: int) -> str:
        await run.step("look up", str, order)
        who = await run.wait("approved by", str, timeout=3600)
        notes = await run.receive("notes", str)
        if self.broken:
            await run.step("pay back", int, "no number")
        return f"{order} {who} {notes[0]}"

    def said(self, *arguments: str, code: int = 0) -> str:
        command = ["--database", "app.db", "workflow", *arguments]
        return self._run(*command, code=code).stdout

    def told(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.said(*arguments, "--json", code=code))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.app.store.close()


def test_an_operator_tells_a_run_what_it_waits_for(shop: Shop) -> None:
    handle = shop.flow.options(id="r 1").start(42)
    with worked(shop.app):
        until(lambda: handle.status().waiting_for)
        (listed,) = shop.told("list", "waiting")["runs"]
        assert (listed["id"], listed["name"]) == ("r 1", "refund")
        assert listed["waiting_for"] == ["approved by"]
        assert "approved by" in shop.said("list", "--name", "refund")
        assert shop.told("signal", "r 1", "approved by", '"ann"') == {"id": "r 1", "done": True}
        assert not shop.told("signal", "r 1", "approved by", '"bob"', code=1)["done"]
        shop.said("send", "r 1", '"a note"')
        with pytest.raises(JobFailed):
            handle.result(60)
        shown = shop.told("show", "r 1", "--payload")
        steps = {step["name"]: step for step in shown["steps"] if step["kind"] != "inbox"}
        assert list(steps) == ["look up", "approved by", "notes"]
        assert all(step["fate"] == "done" for step in steps.values())
        assert shown["state"] == "failed"
        assert shown["failure"]["text"].startswith("invalid literal")
        assert shown["values"]["signal:approved by"] == "ann"
        shop.broken = False
        assert shop.said("resume", "r 1") == "r 1 goes on\n"
        assert handle.result(60) == "42 ann a note"
        assert (
            "is done"
            in shop._run("--database", "app.db", "workflow", "resume", "r 1", code=1).stderr
        )
        shop.said("fork", "r 1", "notes", "--as", "r 2")
        assert shop.flow.handle("r 2").status().state in ("pending", "leased", "done")
        shop.said("fork", "r 1", "notes", "--as", "r 2", code=1)
        assert shop.told("delete", "r 1")["records"] == 5


def test_an_operator_ends_a_run(shop: Shop) -> None:
    shop.flow.options(id="r").start(1)
    assert shop.said("cancel", "r") == "r is cancelled\n"
    assert shop.said("cancel", "r", code=1) == "r had ended\n"
    assert shop.told("list", "cancelled")["runs"][0]["id"] == "r"
    for command in (["show"], ["cancel"], ["resume"], ["signal", "a", "1"], ["send", "1"]):
        name, *rest = command
        shop.said(name, "nowhere", *rest, code=1)


def test_prune_counts_and_removes_only_runs_that_have_ended(shop: Shop) -> None:
    """Done and cancelled ones, unless a state is named; it counts by default."""
    for id_ in ("ended", "goes on"):
        shop.flow.options(id=id_).start(1)
    shop.said("cancel", "ended")
    late = ("prune", "--before", "2100-01-01T00:00:00Z")
    said = {"done": 0, "cancelled": 1}
    told = shop.told(*late)
    assert (told["applied"], told["counts"], told["more"]) == (False, said, False)
    assert shop.told(*late, "--state", "failed", "--apply")["counts"] == {"failed": 0}
    assert shop.said(*late).splitlines()[1:] == [
        "cancelled: 1",
        "counted only; --apply removes them",
    ]
    assert shop.told(*late, "--apply")["counts"] == said
    assert [run["id"] for run in shop.told("list")["runs"]] == ["goes on"]


def test_what_is_no_json_is_a_usage_error(shop: Shop) -> None:
    shop.flow.options(id="r").start(1)
    shop.said("signal", "r", "a", "ann", code=2)
    shop.said("fork", "r", "a", code=2)
    shop.said("list", "odd", code=2)


def test_listings_go_on_behind_a_page(shop: Shop) -> None:
    for n in range(3):
        shop.flow.options(id=f"r{n}").start(n)
    first = shop.told("list", "--limit", "2")
    rest = shop.told("list", "--limit", "2", "--after", first["next"])
    found = [run["id"] for page in (first, rest) for run in page["runs"]]
    assert sorted(found) == ["r0", "r1", "r2"]
    assert rest["next"] is None


def test_a_terminal_has_bars_and_shows_control_characters_as_text(shop: Shop) -> None:
    """What comes out of a file is somebody else's text."""

    @shop.app.workflow
    async def odd(run: Run) -> None:
        await run.step("red \x1b[31m [bold]", str, 1)
        await run.sleep("nap", 3600)

    handle = odd.options(id="o").start()
    with worked(shop.app):
        until(lambda: handle.status().waiting_for)
    out = io.StringIO()
    found = timeline(shop.app.store._file, "o")
    drawn(found, Console(file=out, force_terminal=True, width=100, color_system=None))
    text = out.getvalue()
    assert "\x1b[31m" not in text
    assert "red \\x1b[31m [bold]" in text
    assert "░" in text
    assert "█" in text
    assert "min left" in text or "h left" in text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.00085, "850 µs"),
        (0.012, "12 ms"),
        (4.2, "4.2 s"),
        (180, "3 min"),
        (5 * 3600, "5 h"),
        (2 * 86_400, "2 d"),
    ],
)
def test_a_length_of_time_is_told_as_people_do(seconds: float, words: str) -> None:
    assert span(seconds) == words
