"""Shelves: records of another library, put, walked and taken away by ranges of their keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fencepost import InvalidArgument
from fencepost._binding.calls import Core
from fencepost._binding.shelf import LAST, Shelf, shelves
from harness_core import START, tx

KEYS = ["a", "a!", "a!1", "a-1", "b", "ä", "\U0001f600"]  # in the order of their bytes


@pytest.fixture
def shelf(core: Core) -> Shelf:
    return Shelf(core, "one")


def keys(shelf: Shelf, start: str = "", upto: str = LAST, **how: bool) -> list[str]:
    return [kept.key for kept in shelf.walk(None, start, upto, **how)]


def test_a_walk_goes_by_the_bytes_of_the_keys_either_way(shelf: Shelf) -> None:
    """Whatever the order they were put in."""
    shelf.put(None, {key: key.encode() for key in reversed(KEYS)})
    assert keys(shelf) == KEYS
    assert keys(shelf, backwards=True) == KEYS[::-1]
    assert [kept.value for kept in shelf.walk(None, "", LAST)] == [key.encode() for key in KEYS]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("page", [1, 2, 3, 1000])
def test_pages_are_no_boundaries(shelf: Shelf, page: int, backwards: bool) -> None:
    """No record is left out or told twice, whatever the size of a page."""
    shelf.put(None, dict.fromkeys(KEYS, b"x" * 100))
    walked = shelf.walk(None, "", LAST, page=page, backwards=backwards)
    assert sorted(kept.key for kept in walked) == sorted(KEYS)


def test_a_range_has_its_first_key_and_not_the_one_after_its_last(shelf: Shelf) -> None:
    shelf.put(None, dict.fromkeys(KEYS, b""))
    assert keys(shelf, "a!", "b") == ["a!", "a!1", "a-1"]
    assert shelf.erase(None, "a!", "b") == 3
    assert keys(shelf) == ["a", "b", "ä", "\U0001f600"]


def test_without_values_none_is_copied(shelf: Shelf) -> None:
    shelf.put(None, {"a": b"value"})
    assert [kept.value for kept in shelf.walk(None, "", LAST, values=False)] == [b""]


def test_a_key_keeps_what_it_has_unless_it_is_replaced(shelf: Shelf) -> None:
    """A value that is empty is one, too; what is replaced keeps its place and gets a new moment."""
    shelf.put(None, {"a": b"", "b": b"1"})
    shelf.put(None, {"a": b"2", "c": b"2"})
    assert [kept.value for kept in shelf.walk(None, "", LAST)] == [b"", b"1", b"2"]
    shelf.put(None, {"a": b"3"}, replace=True)
    kept = shelf.get(None, "a")
    assert kept is not None
    assert (kept.value, kept.written_us) == (b"3", START)
    assert shelf.get(None, "aa") is None


def test_shelves_do_not_touch(core: Core, shelf: Shelf) -> None:
    """One of them is emptied; those beside it stay, and each is told once."""
    names = ["on", "one", "one!", "ones", "two"]
    for name in names:
        Shelf(core, name).put(None, {"a": b"1", "b": b"2"})
    assert [*shelves(core, None, "one")] == ["one!", "ones"]
    assert [*shelves(core, None, "o")] == ["on", "one", "one!", "ones"]
    assert shelf.erase(None, "", LAST) == 2
    assert [*shelves(core, None, "o")] == ["on", "one!", "ones"]
    assert keys(Shelf(core, "ones")) == ["a", "b"]


def test_many_shelves_are_told_page_by_page(core: Core) -> None:
    names = [f"many:{number:04}" for number in range(450)]
    for name in names:
        Shelf(core, name).put(None, {"a": b""})
    assert [*shelves(core, None, "many:")] == names


def test_what_is_rolled_back_was_never_there(core: Core, shelf: Shelf) -> None:
    """Inside the transaction it is seen, and outside of it nothing is."""
    shelf.put(None, {"a": b"1"})

    def change() -> None:
        with tx(core) as begun:
            shelf.put(begun, {"b": b"2"})
            assert shelf.erase(begun, "a", "b") == 1
            assert [kept.key for kept in shelf.walk(begun, "", LAST)] == ["b"]
            assert keys(shelf) == ["a"]
            raise KeyError

    with pytest.raises(KeyError):
        change()
    assert keys(shelf) == ["a"]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (lambda core: Shelf(core, "").put(None, {"a": b""}), "id is empty"),
        (lambda core: Shelf(core, "x" * 1025).put(None, {"a": b""}), "at most 1024"),
        (lambda core: Shelf(core, "x").put(None, {}), "number of records"),
        (lambda core: Shelf(core, "x").put(None, {"": b""}), "a key is empty"),
        (lambda core: Shelf(core, "x").put(None, {"a\0": b""}), "NUL"),
        (lambda core: Shelf(core, "x").put(None, {"k" * 1025: b""}), "at most 1024"),
        (lambda core: [*Shelf(core, "x").walk(None, "", "", page=0)], "limit"),
        (lambda core: Shelf(core, "x").erase(None, "a" * 1029, LAST), "at most 1028"),
    ],
)
def test_what_is_no_key_is_refused(
    core: Core, what: Callable[[Core], object], words: str, unchanged: Callable[[], None]
) -> None:
    unchanged()
    with pytest.raises(InvalidArgument, match=words):
        what(core)
    unchanged()


def test_the_longest_key_is_found(shelf: Shelf) -> None:
    longest = "k" * 1024
    shelf.put(None, {longest: b"1", longest[:-1]: b"2"})
    kept = shelf.get(None, longest)
    assert kept is not None
    assert kept.value == b"1"
    assert keys(shelf, backwards=True) == [longest, longest[:-1]]
