"""A row that is damaged is shown as far as it goes, and hides none of the others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

import fencepost

MESSAGE = "UPDATE fencepost_message SET"
OUTCOME = "UPDATE fencepost_outcome SET"

# Of one dead letter among five.
DAMAGES = [
    "DELETE FROM fencepost_message",
    f"{MESSAGE} key = x'ff00ff'",
    f"{MESSAGE} lane = x'ff'",
    f"{MESSAGE} headers = 'no json'",
    f"{MESSAGE} headers = x'ff00'",
    f"{MESSAGE} body = 'text'",
    f"{MESSAGE} enqueued_at = 'yesterday'",
    f"{MESSAGE} enqueued_at = 9223372036854775807",
    f"{MESSAGE} enqueued_at = -9223372036854775807",
    f"{OUTCOME} settled_at = -5",
    f"{OUTCOME} failure_kind = 7",
    f"{OUTCOME} failure_kind = x'ff'",
    f"{OUTCOME} failure_text = x'fffe'",
    f"{OUTCOME} failure_code = x'fffe'",
    f"{OUTCOME} attempts = -3",
    f"{OUTCOME} generation = 'abc'",
]
# What no listing meets any more. It is found by its id, and the check names it.
LOST = [
    f"{OUTCOME} settled_at = 9223372036854775807",
    f"{OUTCOME} settled_at = 'yesterday'",
    f"{OUTCOME} queue = 77",
]

Foreign = Callable[[str], str]


@pytest.fixture
def dead(path: Path) -> list[int]:
    """Five, by their ids; the file is closed."""
    with fencepost.open(path) as store:
        queue = store.queue("q", int, addressed=True, listed=True, keep=3600)
        ids = [queue.enqueue(n, key=f"k{n}", headers={"h": "1"}).id for n in range(5)]
        for claim in queue.claim(5):
            claim.fail("no")
    return ids


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_dead_letter_is_listed_and_hides_no_other(
    path: Path, dead: list[int], foreign: Foreign, damage: str
) -> None:
    """And the others are replayed; of it there is an answer, too."""
    foreign(f"{damage} WHERE id = {dead[2]}")
    with fencepost.open(path) as store:
        listed = store.messages("dead")
        assert sorted(one.id for one in listed) == dead
        assert all(isinstance(one.enqueued_at, datetime) for one in listed)
        assert store.message(dead[2]) is not None
        answers = {one.id: one.outcome for one in store.replay(listed)}
        assert answers.pop(dead[2]) in ("replayed", "gone")
        assert set(answers.values()) == {"replayed"}


@pytest.mark.parametrize("damage", LOST)
def test_what_no_listing_meets_is_found_by_the_check(
    path: Path, dead: list[int], foreign: Foreign, damage: str
) -> None:
    foreign(f"{damage} WHERE id = {dead[2]}")
    with fencepost.open(path) as store:
        assert sorted(one.id for one in store.messages("dead")) == [*dead[:2], *dead[3:]]
        message = store.message(dead[2])
        assert message is not None
        assert message.state == "dead"
        assert any(f"essage {dead[2]} " in words for words in store.check())


@pytest.mark.parametrize("headers", ["'no json'", "x'ff00'", "'[1]'"])
def test_a_body_is_shown_though_its_headers_cannot_be_read(
    path: Path, dead: list[int], foreign: Foreign, headers: str
) -> None:
    foreign(f"{MESSAGE} headers = {headers} WHERE id = {dead[2]}")
    with fencepost.open(path) as store:
        content = store.content(dead[2])
    assert content.body == b"2"
    assert list(content.headers) == ["fencepost-unreadable"]
