"""
The two packed layouts, byte by byte, and what they refuse.

The golden bytes are those of a little-endian machine; the layouts are the machine's own.
"""

from __future__ import annotations

import sys
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost._binding import pack
from fencepost._binding.calls import FP
from fencepost._binding.lib import ffi, lib
from fencepost._binding.pack import Packed, Verdict
from fencepost.errors import InvalidArgument

golden = pytest.mark.skipif(sys.byteorder != "little", reason="golden bytes are little-endian")


def i64(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


# ---- packed values -------------------------------------------------------------------------------


@golden
def test_the_bytes_of_packed_values() -> None:
    packed = pack.values([None, 1, -2, True, 1.5, "é", b"\x00\xff", bytearray(b"x"), ""])
    assert packed == b"".join(
        [
            b"n",
            b"i" + i64(1),
            b"i" + i64(-2),
            b"i" + i64(1),
            b"f" + bytes.fromhex("000000000000f83f"),
            b"t" + i64(2) + b"\xc3\xa9",
            b"b" + i64(2) + b"\x00\xff",
            b"b" + i64(1) + b"x",
            b"t" + i64(0),
        ]
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2**63, "does not fit SQLite's 64-bit integer"),
        (-(2**63) - 1, "does not fit"),
        ("\ud800", "cannot be stored as UTF-8"),
        ([], "list is not a type of SQLite"),
        (object(), "object is not a type of SQLite.*say how it is to be stored"),
    ],
)
def test_values_without_a_type_in_sqlite_are_refused(value: object, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        pack.values([value])


sqlite_values = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
)


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(sqlite_values, min_size=n, max_size=n), min_size=1)
    )
)
def test_rows_come_back_as_they_were_packed(rows: list[list[Any]]) -> None:
    blob = b"".join(pack.values(row) for row in rows)
    found = pack.row_values(Packed(len(rows), len(rows[0]), b"", blob))
    assert found == [tuple(row) for row in rows]


def test_text_that_is_not_utf8_names_its_place_and_the_way_out() -> None:
    blob = b"n" + b"t" + (1).to_bytes(8, sys.byteorder) + b"\xff"
    with pytest.raises(InvalidArgument, match=r"column 2 of row 1 .*CAST\(… AS BLOB\)"):
        pack.row_values(Packed(1, 2, b"", blob))


# ---- packed rows ---------------------------------------------------------------------------------


def test_the_variable_parts_of_a_row_are_cut_in_order() -> None:
    """-1 is no value, 0 is an empty one."""
    parts, at = pack.parts(b"..abcde..", 2, [2, -1, 0, 3])
    assert (parts, at) == ([b"ab", None, b"", b"cde"], 7)


@golden
def test_the_bytes_of_records() -> None:
    packed = Packed(2, 3, b"".join(map(i64, [1, 2, -3, 4, 5, 6])), b"")
    assert list(pack.records(packed)) == [(1, 2, -3), (4, 5, 6)]
    assert list(pack.records(Packed(0, 16, b"", b""))) == []
    assert list(pack.records(Packed(0, 0, b"", b""))) == []


# ---- what goes in --------------------------------------------------------------------------------


@golden
def test_the_bytes_of_verdicts() -> None:
    fixed, blob = pack.verdicts(
        [
            Verdict(7, 8, FP.ACK, result=b"{}"),
            Verdict(9, 10, FP.RETRY, -1, kind=b"error", text=b""),
            Verdict(11, 12, FP.RELEASE, 5),
        ]
    )
    rows = [
        (7, 8, FP.ACK, 0, 2, -1, -1, -1, 0, 0),
        (9, 10, FP.RETRY, -1, -1, 5, -1, 0, 0, 0),
        (11, 12, FP.RELEASE, 5, -1, -1, -1, -1, 0, 0),
    ]
    assert fixed == b"".join(i64(number) for row in rows for number in row)
    assert blob == b"{}error"


def test_a_verdict_is_as_wide_as_the_core_says() -> None:
    fixed, _ = pack.verdicts([Verdict(1, 2, FP.ACK)])
    assert len(fixed) == ffi.sizeof("fp_verdict")


def test_a_policy_has_the_fields_that_the_core_says() -> None:
    assert len(pack.POLICY_FIELDS) == lib.FP_POLICY_FIELDS
    packed = pack.policy_bytes({"keep_us": 5})
    assert list(memoryview(packed).cast("q")) == [5] + [pack.UNSET] * (lib.FP_POLICY_FIELDS - 1)


@golden
def test_the_bytes_of_a_put() -> None:
    """One crossing: all bodies in one, and beside them how long each is."""
    data, lengths = pack.joined([b"ab", b"", b"c"])
    assert (data, lengths.tobytes()) == (b"abc", bytes.fromhex("020000000000000001000000"))
    data, optional = pack.joined_optional([b"k", None, b""])
    assert (data, optional.tobytes()) == (b"k", bytes.fromhex("01000000ffffffff00000000"))


def test_pairs_are_flat() -> None:
    assert pack.pairs([(1, 2), (3, 4)]) == array("q", [1, 2, 3, 4])


def test_what_is_borrowed_lives_as_long_as_the_structure() -> None:
    """The views are kept with it: nothing else holds these bytes."""
    laid = pack.fp_put(pack.Put(1, [bytes([65, 66]), bytes([67])], keys=[bytes([75]), None]))
    into = laid.into
    assert ffi.buffer(into.bodies, 3)[:] == b"ABC"
    assert ffi.unpack(into.body_bytes, 2) == [2, 1]
    assert ffi.unpack(into.key_bytes, 2) == [1, -1]
    assert into.lives == ffi.NULL
    assert into.delays_us == ffi.NULL
