"""The command line: what it answers, with which code, and how little it trusts a file's words."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

import fencepost
from commands import Run, quiet_environment, runner


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A file with one queue `q` of three messages, made and closed."""
    path = str(tmp_path / "app.db")
    with fencepost.open(path) as store:
        store.queue("q", addressed=True, listed=True).enqueue_many([{"n": 1}, {"n": 2}, {"n": 3}])
    return path


# ---- how it answers ------------------------------------------------------------------------------


def test_a_call_without_a_command_shows_what_there_is(run: Run) -> None:
    done = run(code=2)
    for command in ("work", "ingest", "stats", "list", "show", "demo"):
        assert command in done.stdout
    assert done.stdout.count("...") == 1  # of the usage; no line about a command is cut


def test_the_file_is_named_before_the_command(run: Run) -> None:
    """The likeliest slip has an answer of its own."""
    said = "fencepost: --database stands before the command: fencepost --database PATH stats\n"
    assert run("stats", "--database", "app.db", code=2).stderr == said


@pytest.mark.parametrize(
    "call", [["nonsense"], ["stats", "--nonsense"], ["stats"], ["list", "nowhere"], ["show", "x"]]
)
def test_a_wrong_call_is_one_line_and_exit_2(run: Run, call: list[str]) -> None:
    done = run(*call, code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("fencepost: ")
    assert done.stderr.count("\n") == 1


def test_a_failure_is_one_line_and_exit_1(run: Run, tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("this is no database, and long enough to be looked at " * 40)
    done = run("--database", "no.db", "stats", code=1)
    assert done.stderr.startswith("fencepost: ")
    assert done.stderr.count("\n") == 1


def test_looking_creates_nothing(run: Run, tmp_path: Path) -> None:
    doing = (["cancel", "1"], ["pause", "q"], ["backup", "copy.db"], ["dead", "replay", "1"])
    looking = (
        ["stats"],
        ["list"],
        ["show", "1"],
        ["health"],
        ["metrics"],
        ["top"],
        ["dead", "list"],
    )
    for call in (*looking, *doing):
        run("--database", "none.db", *call, code=1)
    assert list(tmp_path.iterdir()) == []


def test_the_environment_names_the_file(run: Run, db: str) -> None:
    assert "q" in run("stats", FENCEPOST_DATABASE=db).stdout


def test_a_terminal_that_knows_ascii_only_gets_ascii(run: Run, tmp_path: Path) -> None:
    with fencepost.open(tmp_path / "app.db") as store:
        store.queue("größe").enqueue(1)
    assert "gr\\xf6\\xdfe" in run("--database", "app.db", "stats", PYTHONIOENCODING="ascii").stdout


def test_without_click_it_says_what_to_install(tmp_path: Path) -> None:
    """`fencepost` is there without the extra `[cli]`, and must then not end in a traceback."""
    hide = (
        "import sys; sys.modules['click'] = None; sys.argv = ['fencepost', 'stats'];"
        "from fencepost.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "fencepost: the command line needs click: pip install 'fencepost[cli]'\n"


def test_a_reader_that_has_seen_enough_is_no_traceback(db: str) -> None:
    with fencepost.open(db) as store:
        store.queue("q").enqueue_many([{"text": "x" * 50}] * 5000)
    command = [sys.executable, "-m", "fencepost", "--database", db, "list", "--limit", "5000"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "--json"], stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_streams_that_the_caller_has_closed_are_no_traceback(tmp_path: Path, db: str) -> None:
    """Nor does anything else get their numbers: neither a pipe to a child, nor the file."""
    names = "print(sorted(os.readlink(f'/proc/self/fd/{n}') for n in range(3)), file=out)"
    program = (
        "import os, sys; from fencepost.cli import main\n"
        f"try: main()\nfinally: out = open('said', 'w'); {names}"
    )
    for words in (["stats"], ["ingest", "q", "-"], ["show", "99"]):
        closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "-", sys.executable, "-c", program]
        done = subprocess.run([*closed, "--database", db, *words], cwd=tmp_path, check=False)
        assert done.returncode == (1 if words[0] == "show" else 0)
        if sys.platform == "linux":
            assert (tmp_path / "said").read_text() == f"{[os.devnull] * 3}\n"


# ---- stats, list, show ---------------------------------------------------------------------------


def test_stats_counts_each_queue(run: Run, db: str) -> None:
    told = json.loads(run("--database", db, "stats", "--json").stdout)
    assert told["queues"]["q"]["pending"] == 3
    header, row = run("--database", db, "stats").stdout.splitlines()
    assert header.split()[:2] == ["queue", "pending"]
    assert row.split()[:2] == ["q", "3"]


def test_a_list_goes_on_where_it_stopped(run: Run, db: str) -> None:
    first = json.loads(run("--database", db, "list", "--limit", "2", "--json").stdout)
    rest = json.loads(run("--database", db, "list", "--after", first["next"], "--json").stdout)
    ids = [message["id"] for page in (first, rest) for message in page["messages"]]
    assert len(ids) == len(set(ids)) == 3
    assert rest["next"] is None


def test_a_list_may_be_longer_than_a_page_of_the_store(run: Run, db: str) -> None:
    with fencepost.open(db) as store:
        store.queue("q").enqueue_many([{}] * 500)
    told = json.loads(run("--database", db, "list", "--limit", "450", "--json").stdout)
    assert len({message["id"] for message in told["messages"]}) == 450
    assert told["next"]


def test_a_payload_is_shown_only_when_asked_for(run: Run, tmp_path: Path) -> None:
    with fencepost.open(tmp_path / "app.db") as store:
        id_ = store.queue("q").enqueue({"secret": 42}, headers={"trace": "abc"}).id
    base = ("--database", "app.db", "show", str(id_))
    for call in (base, (*base, "--json"), ("--database", "app.db", "list", "--json")):
        assert "secret" not in run(*call).stdout
    assert '{"secret": 42}' in run(*base, "--payload").stdout
    told = json.loads(run(*base, "--payload", "--json").stdout)
    assert told["payload"] == {"secret": 42}
    assert told["headers"] == {"trace": "abc"}


def test_a_message_that_is_not_there_is_exit_1(run: Run, db: str) -> None:
    assert run("--database", db, "show", "999999", code=1).stderr == (
        "fencepost: there is no message 999999\n"
    )


HOSTILE = "\x1b[31m[bold red]\u202eevil[/]\x07\r\n\x9b2J"


def test_what_a_file_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """Control characters are written out, and rich's markup stays the text it was."""
    path = tmp_path / "app.db"
    with fencepost.open(path) as store:
        queue = store.queue("[bold]q", addressed=True, listed=True)
        id_ = queue.enqueue({"text": HOSTILE}, key=HOSTILE).id
        queue.claim()[0].fail(HOSTILE)
    for call in (["list", "dead"], ["show", str(id_), "--payload"], ["stats"]):
        seen = on_a_terminal(["--database", str(path), *call])
        colours = ("\x1b[0m", "\x1b[1m", "\x1b[1;")
        plain = seen
        for escape in ("\r\n", *colours):
            plain = plain.replace(escape, "")
        assert not set("\x07\x9b\u202e\r") & set(plain)
        assert "\x1b[31m" not in plain
        assert "[bold]q" in seen


@pytest.mark.parametrize("width", [20, 60, 80, 100, 300])
def test_a_narrow_terminal_cuts_nothing(tmp_path: Path, width: int) -> None:
    """What does not fit into a table is told without one; only sentences are wrapped."""
    path = tmp_path / "app.db"
    key = "customer:2f9c1d7e-aaaa-bbbb-cccc-000000000001"
    with fencepost.open(path) as store:
        queue = store.queue("a-queue-of-some-length")
        queue.enqueue(1, key=key, lane="tenant-1")
        queue.claim()[0].fail("what went wrong at the far end, in a sentence that is long")
    words = {
        ("stats",): ["a-queue-of-some-length", "pending", "waiting", "leased", "paused"],
        ("list", "dead"): [key, "tenant-1", "attempt", "ended", "sentence"],
        ("show", "1"): [key, "tenant-1", "generation", "sentence"],
    }
    for call, wanted in words.items():
        seen = on_a_terminal(["--database", str(path), *call], width)
        assert "…" not in seen
        assert [word for word in wanted if word not in seen] == []
        assert width > 20 or "│" not in seen
        assert width < 300 or "│" in seen


def on_a_terminal(arguments: list[str], width: int = 300) -> str:
    """All that `fencepost ARGUMENTS` writes when it believes to have a person before it."""
    master, slave = pty.openpty()
    environment = {**quiet_environment(), "TERM": "xterm-256color", "COLUMNS": str(width)}
    command = [sys.executable, "-m", "fencepost", *arguments]
    with subprocess.Popen(command, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        seen = b""
        while process.poll() is None or select.select([master], [], [], 0)[0]:
            if select.select([master], [], [], 0.05)[0]:
                try:
                    seen += os.read(master, 65536)
                except OSError:  # Linux says EIO when the other side is closed
                    break
        os.close(master)
    assert process.returncode == 0, seen
    return seen.decode()
