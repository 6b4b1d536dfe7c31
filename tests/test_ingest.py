"""`fencepost ingest`: every line taken or told, in order, once per key, in constant memory."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost.cli import ingest as room
from fencepost.cli.ingest import Ingest

Aside = list[tuple[int, bytes, str]]


def read(
    store: fencepost.Store, data: bytes, key: str | None = None, **policy: Any
) -> tuple[Ingest, Aside]:
    aside: Aside = []
    run = Ingest(store.queue("q", **policy), key=key, aside=lambda *what: aside.append(what))
    run.read(io.BytesIO(data))
    return run, aside


def payloads(store: fencepost.Store) -> list[Any]:
    return [claim.payload for claim in store.queue("q").claim(10_000)]


def test_every_line_becomes_one_message_in_order(real: fencepost.Store) -> None:
    values: list[Any] = [{"n": n} for n in range(2500)] + [1, "text", None, [1.5, True], 10**30]
    run, aside = read(real, b"".join(json.dumps(value).encode() + b"\n" for value in values))
    assert (run.added, run.known, aside) == (2505, 0, [])
    assert payloads(real) == values


def test_line_ends_blanks_and_a_byte_order_mark_are_no_lines(real: fencepost.Store) -> None:
    run, aside = read(real, b'\xef\xbb\xbf{"a": 1}\r\n\n   \n{"a": 2}')
    assert (run.added, aside) == (2, [])


BAD = [
    b"{",
    b"nonsense",
    b"\xff\xfe",
    b'"\xff"',
    b'{"id": 1} {"id": 2}',
    b"NaN",
    b"1e999",
    b"[" * 100_000,
    b'{"id": null}',
    b'{"id": true}',
    b'{"id": 1.5}',
    b'{"id": {}}',
    b'{"no": 1}',
    b"[]",
    b'{"id": "' + b"x" * 2000 + b'"}',
    b'{"id": ""}',
]


def test_a_bad_line_is_set_aside_by_its_number_and_stops_nobody(real: fencepost.Store) -> None:
    lines: list[bytes] = []
    for bad in BAD:
        lines += [json.dumps({"id": len(lines)}).encode(), bad]
    run, aside = read(real, b"\n".join(lines), key="id")
    assert [number for number, _, _ in aside] == list(range(2, 2 * len(BAD) + 1, 2))
    assert [text.rstrip(b"\n") for _, text, _ in aside] == BAD
    assert all(why and "\n" not in why for _, _, why in aside)
    assert (run.added, run.set_aside) == (len(BAD), len(BAD))


def test_a_key_goes_inwards_and_counts_once(real: fencepost.Store) -> None:
    data = b'{"a": {"b": "x"}}\n{"a": {"b": "y"}}\n{"a": {"b": "x"}}\n'
    run, _ = read(real, data, key="a.b")
    assert (run.added, run.known) == (2, 1)
    again, _ = read(real, data, key="a.b")
    assert (again.added, again.known) == (0, 3)


def test_a_line_that_contradicts_its_key_is_set_aside_alone(real: fencepost.Store) -> None:
    """A batch is all or none; one conflicting line of it must not keep the others out."""
    dice = random.Random(7)
    wrong = set(dice.sample(range(1, 3000), 20))
    lines = [{"id": n} for n in range(3000)]
    first, _ = read(real, b"\n".join(json.dumps(lines[n]).encode() for n in wrong), key="id")
    changed = [{**line, "new": True} if line["id"] in wrong else line for line in lines]
    run, aside = read(real, b"\n".join(json.dumps(line).encode() for line in changed), key="id")
    assert (first.added, run.added) == (20, 2980)
    assert {number - 1 for number, _, _ in aside} == wrong


def test_a_line_that_is_too_long_is_set_aside_unread(
    real: fencepost.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LINE_BYTES", 100)
    data = b'{"a": 1}\n"' + b"x" * 1000 + b'"\n{"a": 2}\n'
    run, aside = read(real, data)
    assert run.added == 2
    assert [(number, len(text)) for number, text, _ in aside] == [(2, 101)]


def test_a_full_queue_is_waited_for(tmp_path: Path, real: fencepost.Store) -> None:
    """More lines than the queue may hold go in as fast as somebody takes them out."""
    queue = real.queue("q", max_size=10)
    (tmp_path / "lines").write_bytes(b"".join(b'{"n": %d}\n' % n for n in range(100)))
    command = ["-m", "fencepost", "--database", real.path, "ingest", "q", "lines"]
    with subprocess.Popen([sys.executable, *command], cwd=tmp_path) as process:
        taken: list[int] = []
        while len(taken) < 100:
            claims = queue.claim(100, wait=30)
            taken += [claim.payload["n"] for claim in claims]
            queue.ack(claims)
        assert process.wait(60) == 0
    assert taken == list(range(100))


def command(folder: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "fencepost", "--database", "app.db", "ingest", "q", *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def test_the_command_tells_numbers_and_keeps_what_it_did_not_take(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b'{"id": 1}\nno\n{"id": 2}\nnever\n')
    done = command(tmp_path, "lines", "--key", "id", "--rejects", "bad", "--json")
    assert done.returncode == 1
    assert [line[: len("fencepost: line 2:")] for line in done.stderr.splitlines()] == [
        "fencepost: line 2:",
        "fencepost: line 4:",
    ]
    assert (tmp_path / "bad").read_bytes() == b"no\nnever\n"
    told = json.loads(done.stdout)
    assert {**told, "seconds": 0} == {
        "queue": "q",
        "lines": 4,
        "added": 2,
        "known": 0,
        "set_aside": 2,
        "seconds": 0,
    }


def test_the_command_reads_standard_input(tmp_path: Path) -> None:
    done = command(tmp_path, "-", stdin=b"1\n2\n3\n")
    assert done.returncode == 0
    assert "3 added, 0 known, 0 set aside" in done.stdout


def test_the_rejects_never_overwrite_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"no\n")
    assert command(tmp_path, "lines", "--rejects", "./lines").returncode == 2
    assert (tmp_path / "lines").read_bytes() == b"no\n"


def nothing() -> None:
    """A job."""


def test_what_is_no_queue_of_plain_messages_is_one_failure(tmp_path: Path) -> None:
    """Not one for each line."""
    app = fencepost.App(tmp_path / "app.db")
    with app.store:
        app.job(queue="q")(nothing).enqueue()
    done = command(tmp_path, "-", stdin=b"1\n2\n3\n")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


def test_a_missing_file_creates_no_database(tmp_path: Path) -> None:
    done = command(tmp_path, "nowhere")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_batch_ends_by_its_bytes_too(real: fencepost.Store) -> None:
    """Memory is that of one batch, however long the file and its lines are."""
    line = b'"' + b"x" * (1 << 20) + b'"\n'
    batches = [0]
    run = Ingest(real.queue("q"), progress=lambda lines, _: batches.append(lines - sum(batches)))
    run.read(io.BytesIO(line * 20))
    assert sum(batches) == 20
    assert max(batches) * len(line) < room.BATCH_BYTES + len(line)
