"""The operator's commands: what they do, what each answers for each row, and with which code."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

import fencepost
from commands import quiet_environment
from fencepost.cli import root
from fencepost.cli.watch import HEADINGS
from fencepost.testing import Clock

Ask = Callable[..., Any]


class Done(NamedTuple):
    stdout: str
    stderr: str


class Run(Protocol):
    def __call__(self, *arguments: str, code: int = 0) -> Done: ...


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process, where that is quicker; what it said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FENCEPOST_DATABASE", raising=False)

    def run(*arguments: str, code: int = 0) -> Done:
        answer = root.run(arguments)
        done = Done(*capsys.readouterr())
        assert answer == code, done
        return done

    return run


@pytest.fixture
def ask(run: Run) -> Ask:
    """The JSON that a command on `app.db` answers."""

    def ask(*arguments: str, code: int = 0) -> Any:
        return json.loads(run("--database", "app.db", *arguments, "--json", code=code).stdout)

    return ask


@pytest.fixture
def dead(path: Path) -> list[int]:
    """Three dead letters on `q` and one on `other`, the oldest first."""
    ids = []
    with fencepost.open(path) as store:
        for name in ("q", "q", "q", "other"):
            queue = store.queue(name, addressed=True, listed=True)
            ids.append(queue.enqueue({"secret": 1}).id)
            queue.claim()[0].fail("no \x1b[31m[bold]")
    return ids


def states(path: Path, ids: list[int]) -> list[str]:
    with fencepost.open(path) as store:
        found = [store.message(id_) for id_ in ids]
    return [message.state for message in found if message]


# ---- dead letters --------------------------------------------------------------------------------


def test_dead_letters_are_listed_and_shown_without_payload(
    run: Run, ask: Ask, dead: list[int]
) -> None:
    assert [m["id"] for m in ask("dead", "list")["messages"]] == dead[::-1]
    first = ask("dead", "list", "--queue", "q", "--limit", "2")
    rest = ask("dead", "list", "--queue", "q", "--after", first["next"])
    assert [m["id"] for m in (*first["messages"], *rest["messages"])] == dead[2::-1]
    shown = run("--database", "app.db", "dead", "show", str(dead[0])).stdout
    assert "secret" not in shown
    assert "\x1b" not in shown
    assert "\\x1b[31m[bold]" in shown
    assert ask("dead", "show", str(dead[0]), "--payload")["payload"] == {"secret": 1}


def test_a_message_that_lives_is_no_dead_letter(run: Run, path: Path) -> None:
    with fencepost.open(path) as store:
        id_ = store.queue("q", addressed=True).enqueue(1).id
    done = run("--database", "app.db", "dead", "show", str(id_), code=1)
    assert done.stderr == f"fencepost: message {id_} is pending, not dead\n"


def test_each_dead_letter_that_is_named_has_an_answer(
    path: Path, ask: Ask, dead: list[int]
) -> None:
    """And what could not be replayed makes the exit code 1."""
    told = ask("dead", "replay", str(dead[0]))
    assert told["messages"] == [{"id": dead[0], "outcome": "replayed"}]
    told = ask("dead", "replay", *map(str, (*dead[:2], 99999)), code=1)
    assert {m["id"]: m["outcome"] for m in told["messages"]} == {
        dead[0]: "not dead",
        dead[1]: "replayed",
        99999: "gone",
    }
    assert states(path, dead) == ["pending", "pending", "dead", "dead"]


def test_dead_letters_are_replayed_by_a_filter(path: Path, ask: Ask, dead: list[int]) -> None:
    """A dry run says the same, and does nothing."""
    dry = ask("dead", "replay", "--all", "--queue", "q", "--dry-run")
    assert not dry["applied"]
    assert dry["counts"] == {"replayed": 3}
    assert states(path, dead) == ["dead"] * 4
    told = ask("dead", "replay", "--all", "--queue", "q")
    assert (told["applied"], told["counts"]) == (True, {"replayed": 3})
    assert states(path, dead) == ["pending"] * 3 + ["dead"]
    assert ask("dead", "replay", "--all", "--before", "2020-01-01T00:00:00Z")["messages"] == []


def test_many_are_replayed_at_a_rate_over_all_pages(path: Path, ask: Ask) -> None:
    with fencepost.open(path) as store:
        queue = store.queue("q", addressed=True, listed=True, max_attempts=1)
        queue.enqueue_many(range(450))
        for claim in queue.claim(450):
            claim.fail("no")
    assert ask("dead", "replay", "--all", "--rate", "100", "--delay", "50")["counts"] == {
        "replayed": 450
    }
    with fencepost.open(path) as store:
        dues: list[float] = []
        after = None
        while True:
            page = store.messages("pending", after=after, limit=200)
            dues += [message.due.timestamp() for message in page if message.due]
            after = page.next
            if after is None:
                break
    assert len(dues) == 450
    assert dues[-1] - dues[0] > 4.4


@pytest.mark.parametrize(
    "call",
    [["dead", "replay"], ["dead", "replay", "1", "--all"], ["dead", "replay", "1", "--queue", "q"]],
)
def test_what_is_to_be_replayed_is_said_in_one_way(run: Run, path: Path, call: list[str]) -> None:
    run("--database", "app.db", *call, code=2)


# ---- cancel, pause, prune ------------------------------------------------------------------------


def test_each_message_that_is_cancelled_has_an_answer(path: Path, ask: Ask) -> None:
    with fencepost.open(path) as store:
        queue = store.queue("q", int, addressed=True, listed=True, keep=100)
        one, two, three = (put.id for put in queue.enqueue_many([1, 2, 3]))
        queue.claim()[0].ack()
        bulk = store.queue("bulk", int)
        moved = bulk.enqueue(1).id
        bulk.claim()
    told = ask("cancel", *map(str, (one, two, moved, 99999)), code=1)
    assert {m["id"]: m["outcome"] for m in told} == {
        one: "ended",
        two: "cancelled",
        moved: "moved",
        99999: "gone",
    }
    assert ask("cancel", str(three)) == [{"id": three, "outcome": "cancelled"}]


def test_a_queue_is_paused_and_resumed(run: Run, path: Path, ask: Ask) -> None:
    with fencepost.open(path) as store:
        queue = store.queue("q", int)
        queue.enqueue(1)
        assert ask("pause", "q") == {"queue": "q", "paused": True}
        assert queue.claim() == []
        assert run("--database", "app.db", "resume", "q").stdout == "q is not paused\n"
        assert len(queue.claim()) == 1
    run("--database", "app.db", "pause", "nowhere", code=1)


def test_prune_counts_and_removes_only_what_has_ended(path: Path, ask: Ask) -> None:
    """Before the moment, which is excluded; never what is in line or unknown; counts by default."""
    clock = Clock(datetime.now(timezone.utc) - timedelta(hours=1))
    with clock.open(path) as store:
        queue = store.queue("q", int, addressed=True, listed=True, keep=86400)
        queue.enqueue_many(range(8))
        claims = queue.claim(6)
        for claim in claims[:2]:
            claim.ack()
        claims[2].fail("no")
        store.cancel(store.messages("leased", limit=1))
        then = clock.now
        clock.advance(1)
        claims[4].ack()
    assert ask("prune", "--before", then.isoformat())["counts"] == dict.fromkeys(
        ("done", "dead", "cancelled"), 0
    )
    before = clock.now.isoformat().replace("+00:00", "Z")
    said = {"done": 2, "dead": 1, "cancelled": 1}
    told = ask("prune", "--before", before)
    assert (told["applied"], told["counts"], told["more"]) == (False, said, False)
    assert ask("prune", "--before", before, "--state", "dead")["counts"] == {"dead": 1}
    assert ask("prune", "--before", before, "--apply")["counts"] == said
    totals = ask("stats")["totals"]
    assert (totals["done"], totals["dead"], totals["cancelled"]) == (1, 0, 0)
    assert totals["pending"] + totals["leased"] == 3


@pytest.mark.parametrize("moment", ["yesterday", "2026-03-01", "2026-03-01T12:00:00", "\x1b[31m"])
def test_prune_needs_a_moment_with_a_zone(run: Run, path: Path, moment: str) -> None:
    fencepost.open(path).close()
    done = run("--database", "app.db", "prune", "--before", moment, code=2)
    assert "\x1b" not in done.stderr
    run(
        "--database",
        "app.db",
        "prune",
        "--before",
        "2026-03-01T12:00:00Z",
        "--state",
        "unknown",
        code=2,
    )


# ---- backup, restore -----------------------------------------------------------------------------


def test_a_backup_is_made_and_brought_back(run: Run, path: Path, ask: Ask) -> None:
    with fencepost.open(path) as store:
        store.queue("q", int).enqueue(1)
        assert ask("backup", "copy.db") == {"backup": "copy.db"}
        done = run("--database", "app.db", "backup", "copy.db", code=1)
        assert "is there already" in done.stderr
        ask("backup", "copy.db", "--overwrite")
    done = run("--database", "app.db", "restore", "copy.db", code=1)
    assert "is there already" in done.stderr
    path.unlink()
    assert ask("restore", "copy.db") == {"restored": "app.db"}
    assert ask("check", "--full")["findings"] == []
    assert ask("stats")["totals"]["pending"] == 1


# ---- health, metrics, top ------------------------------------------------------------------------


def test_health_is_an_exit_code(run: Run, path: Path, ask: Ask, dead: list[int]) -> None:
    assert ask("health")["healthy"]
    assert ask("health", "--max-dead", "4", "--max-unknown", "0")["reasons"] == []
    told = ask("health", "--max-dead", "3", code=1)
    assert told["reasons"] == ["4 messages are dead"]
    assert told["totals"]["dead"] == 4
    with fencepost.open(path) as store:
        store.queue("q").enqueue(1)
    assert ask("health", "--max-late", "100")["healthy"]
    assert "late" in ask("health", "--max-late", "0", code=1)["reasons"][0]
    ask("pause", "q")
    assert ask("health", "--max-late", "0")["healthy"], "what is paused is not late"
    (path.parent / "no.db").write_text("this is no database, and long enough to be seen " * 40)
    for name in ("no.db", "none.db"):
        told = json.loads(run("--database", name, "health", "--json", code=1).stdout)
        assert not told["healthy"]
        assert name in told["reasons"][0]


def test_metrics_have_bounded_labels(run: Run, path: Path, ask: Ask) -> None:
    """Queues beyond the bound are one; a name cannot break out of its label."""
    with fencepost.open(path) as store:
        for number in range(5):
            store.queue(f"q{number}").enqueue_many([0] * (number + 1))
        store.queue('e"vil\n\\').enqueue_many([0] * 9)
    text = run("--database", "app.db", "metrics").stdout
    sample = re.compile(r'fencepost_\w+\{(\w+="([^"\\\n]|\\["\\n])*",?)+\} \d+(\.\d+)?(e[+-]\d+)?')
    for line in text.splitlines():
        assert line.startswith(("# HELP fencepost_", "# TYPE fencepost_")) or sample.fullmatch(line)
    assert 'fencepost_messages{queue="q4",state="pending"} 5' in text
    assert r'queue="e\"vil\\n\\"' in text
    few = run("--database", "app.db", "metrics", "--queues", "2").stdout
    assert set(re.findall(r'queue="(q\d|\(others\))"', few)) == {"q4", "(others)"}
    assert 'fencepost_messages{queue="(others)",state="pending"} 10' in few


def test_looking_from_outside_creates_no_file(run: Run, path: Path, tmp_path: Path) -> None:
    fencepost.open(path).close()
    for command in ("health", "metrics"):
        run("--database", "app.db", command)
        assert [found.name for found in tmp_path.iterdir()] == ["app.db"]


def test_top_looks_again_and_again(path: Path, run: Run) -> None:
    with fencepost.open(path) as store:
        store.queue("q").enqueue_many([1, 2])
    call = ("--database", "app.db", "top", "--every", "0.1")
    assert "q" in run(*call).stdout, "once, where nobody can see it change"
    looks = [json.loads(line) for line in run(*call, "--times", "3", "--json").stdout.splitlines()]
    assert [look["queues"]["q"]["pending"] for look in looks] == [2, 2, 2]
    assert [look["queues"]["q"]["per_second"] for look in looks] == [None, 0, 0]


def drawn_by_top(folder: Path, columns: int) -> bytes:
    """What it draws on a terminal of that width."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fencepost", "--database", "app.db", "top", "--times", "2"]
    environment = {**quiet_environment(), "TERM": "xterm", "COLUMNS": f"{columns}"}
    with subprocess.Popen(
        [*command, "--every", "0.1"], cwd=folder, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        drawn = b""
        while True:
            try:
                drawn += os.read(ours, 65536)
            except OSError:
                break
    os.close(ours)
    assert process.returncode == 0
    return drawn


def test_top_draws_on_a_terminal_and_escapes_what_it_draws(path: Path, tmp_path: Path) -> None:
    with fencepost.open(path) as store:
        store.queue("[bold]evil\x1b]0;title\x07").enqueue(1)
    drawn = drawn_by_top(tmp_path, 150)
    assert b"[bold]evil\\x1b]0;title\\x07" in drawn
    assert b"\x1b]0;" not in drawn


def test_top_cuts_no_heading_at_eighty_columns(path: Path, tmp_path: Path) -> None:
    """Nor a figure; what is too long is a queue's name, which goes on in the next line."""
    with fencepost.open(path) as store:
        store.queue("a-queue-with-a-name-of-many-words").enqueue_many(range(100_000))
    drawn = drawn_by_top(tmp_path, 80).decode()
    for heading in HEADINGS:
        assert heading in drawn
    assert "100000" in drawn
    assert "…" not in drawn
