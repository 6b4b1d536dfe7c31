"""What came in, as an operator sees it: by the ids that its senders gave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import Run, runner
from fencepost import App


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


@pytest.fixture
def two(path: Path) -> None:
    """One message at each of two addresses, under one id."""
    app = App(path)
    for address in ("payments", "refunds"):
        app.inbox(address, str).accept("evt-1", f"payload of {address}")
    app.store.close()


@pytest.mark.usefixtures("two")
def test_messages_are_listed_by_address_without_payload(run: Run, path: Path) -> None:
    said = run("--database", str(path), "inbox", "list", "payments").stdout
    assert "evt-1" in said
    assert "refunds" not in said
    assert "payload" not in said
    found = run("--database", str(path), "inbox", "list", "refunds", "done", "--json").stdout
    assert json.loads(found)["messages"] == []


@pytest.mark.usefixtures("two")
def test_one_is_shown_by_its_own_id(run: Run, path: Path) -> None:
    asked = ("--database", str(path), "inbox", "show", "refunds", "evt-1", "--json")
    told = json.loads(run(*asked).stdout)
    assert (told["queue"], told["key"], told["state"]) == ("refunds", "evt-1", "pending")
    assert "payload" not in told
    assert json.loads(run(*asked, "--payload").stdout)["payload"] == "payload of refunds"


@pytest.mark.usefixtures("two")
def test_an_id_that_never_came_is_said_to_be_none(run: Run, path: Path) -> None:
    for address, id_ in (("payments", "evt-2"), ("nowhere", "evt-1")):
        done = run("--database", str(path), "inbox", "show", address, id_, code=1)
        assert f"there is no message {id_} at {address}" in done.stderr
