"""Values to bytes and back: what comes out equals what went in, or the call says why not."""

from __future__ import annotations

import enum
import sys
import types
import uuid
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.codec import JSON, check_type
from fencepost.errors import InvalidArgument, PayloadError
from fencepost.values import Backoff


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    article: str
    cents: int


@dataclass
class Order:
    id: uuid.UUID
    placed: datetime
    day: date
    total: Decimal
    seal: bytes
    colour: Colour
    lines: list[Line] = field(default_factory=list)
    note: str | None = None


class Node(msgspec.Struct):
    name: str
    children: list[Node] = []


@dataclass
class Holder:
    thing: types.ModuleType


ORDER = Order(
    id=uuid.UUID(int=7),
    placed=datetime(2026, 3, 1, 12, 0, 0, 123456, timezone(timedelta(hours=5, minutes=30))),
    day=date(2026, 3, 1),
    total=Decimal("19.90"),
    seal=b"\x00\xff\x80",
    colour=Colour.BLUE,
    lines=[Line("b", 2), Line("a", 1)],
)


def test_typed_values_come_back_equal() -> None:
    """A dataclass with UUID, zoned datetime, date, Decimal, bytes and enum is itself again."""
    back = JSON.decode(JSON.encode(ORDER), Order)
    assert back == ORDER
    assert back.placed.utcoffset() == timedelta(hours=5, minutes=30)
    assert str(back.total) == "19.90"


def test_structs_that_hold_themselves_come_back_equal() -> None:
    tree = Node("a", [Node("b"), Node("c", [Node("d")])])
    assert JSON.decode(JSON.encode(tree), Node) == tree


def test_equal_values_are_equal_bytes() -> None:
    """Keys are compared by bytes, so the order in which a dict was filled says nothing."""
    assert JSON.encode({"a": 1, "b": {"d": 1, "c": 2}}) == JSON.encode(
        {"b": {"c": 2, "d": 1}, "a": 1}
    )
    assert JSON.encode({3, 1, 2}) == JSON.encode({2, 3, 1})


def test_keys_that_are_no_text_come_back() -> None:
    value = {2: "b", 1: "a", 10: None}
    assert JSON.decode(JSON.encode(value), dict[int, str | None]) == value
    assert JSON.encode(value) == JSON.encode(dict(reversed(value.items())))
    days = {date(2026, 3, 1): [1.5]}
    assert JSON.decode(JSON.encode(days), dict[date, list[float]]) == days


def test_two_keys_with_one_text_are_refused() -> None:
    """Neither of them may be lost without a word."""
    with pytest.raises(PayloadError, match="same text"):
        JSON.encode({1: "a", "1": "b"})


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: {"a": [None, {"b": x}]},
        lambda x: (1, x),
        lambda x: Backoff(base=x),
        lambda x: {1: x},
    ],
)
def test_nan_and_infinity_are_refused_wherever_they_hide(bad: float, wrap: Any) -> None:
    with pytest.raises(PayloadError, match=r"(nan|inf) has no form in JSON"):
        JSON.encode(wrap(bad))


def test_none_is_no_nan() -> None:
    assert JSON.decode(JSON.encode({"a": None, "b": "null"}), dict[str, str | None]) == {
        "a": None,
        "b": "null",
    }


def circle() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "object cannot be encoded: object has no form in JSON"),
        ([1j], "list cannot be encoded: complex has no form"),
        ({(1, 2): 3}, "dict cannot be encoded"),
        ("\ud800", "str cannot be encoded: .*surrogates"),
        (circle(), "list cannot be encoded: .*recursion"),
    ],
)
def test_what_json_has_no_form_for_is_refused_in_plain_words(value: object, words: str) -> None:
    with pytest.raises(PayloadError, match=words):
        JSON.encode(value)


def test_the_error_names_the_field() -> None:
    body = JSON.encode(ORDER).replace(b'"cents":1', b'"cents":"1"')
    with pytest.raises(
        PayloadError, match=r"Expected `int`, got `str` - at `\$\.lines\[1\]\.cents`"
    ):
        JSON.decode(body, Order)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'"\xff"', b"[" * 100_000])
def test_bytes_that_are_no_json_are_a_payload_error(body: bytes) -> None:
    with pytest.raises(PayloadError):
        JSON.decode(body, Any)


def test_a_pickle_is_never_loaded() -> None:
    import pickle

    with pytest.raises(PayloadError):
        JSON.decode(pickle.dumps(ORDER), Order)


@pytest.mark.parametrize(
    "type",
    [int, Any, None, Order, Node, dict[int, Order], list[Node | None], tuple[int, ...], set[str]],
)
def test_types_that_json_can_tell_apart_are_taken(type: Any) -> None:
    check_type(JSON, type)


@pytest.mark.parametrize(
    ("type", "words"),
    [
        (Holder, "Holder cannot be decoded: module has no form in JSON"),
        (list[Holder], "module has no form in JSON"),
        (complex, "complex has no form in JSON"),
        (object, "object has no form in JSON; say typing.Any"),
        (Order | dict[str, int], "more than one dict-like type"),
        (3, "3"),
    ],
)
def test_a_type_that_cannot_be_decoded_is_refused_at_once(type: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        check_type(JSON, type)


def test_a_codec_of_ones_own_is_not_asked_about_types() -> None:
    class Text:
        def encode(self, value: object, /) -> bytes:
            return str(value).encode()

        def decode(self, body: bytes, type: Any, /) -> Any:
            return type(body.decode())

    check_type(Text(), complex)


def test_a_model_by_the_look_of_it_is_taken_without_importing_pydantic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What has pydantic's two methods is encoded and validated by them."""
    monkeypatch.setitem(sys.modules, "pydantic", None)  # from here on, an import of it fails
    import json

    class Model:
        def __init__(self, n: int) -> None:
            self.n = n

        def model_dump(self, *, mode: str, by_alias: bool, round_trip: bool) -> dict[str, int]:
            assert (mode, by_alias, round_trip) == ("json", True, True)
            return {"n": self.n}

        def model_dump_json(self) -> str:
            raise AssertionError

        @classmethod
        def model_validate_json(cls, body: bytes) -> Model:
            data = json.loads(body)
            if not isinstance(data["n"], int):
                raise ValueError("n is no int")  # noqa: TRY004 - as pydantic does
            return cls(data["n"])

    check_type(JSON, list[Model])
    body = JSON.encode([Model(1), Model(2)])
    assert body == b'[{"n":1},{"n":2}]'
    assert [m.n for m in JSON.decode(body, list[Model])] == [1, 2]
    with pytest.raises(PayloadError, match=r"n is no int - at `\$\[0\]`"):
        JSON.decode(b'[{"n":"x"}]', list[Model])


def test_a_decoder_is_made_once_for_each_type() -> None:
    assert JSON._decoder(list[int]) is JSON._decoder(list[int])


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(values)
def test_plain_values_come_back_equal(value: Any) -> None:
    assert JSON.decode(JSON.encode(value), Any) == value
