"""
Values to bytes and back: JSON by msgspec, typed on the way out, deterministic on the way in.

What goes in comes out equal when it is decoded as its type: dataclasses, msgspec Structs, enums,
datetimes with their zone, dates, UUIDs, Decimals, bytes; pydantic models where pydantic is used.
Nothing is ever pickled. NaN and the infinities are refused: JSON has no word for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from fencepost._checks import short, shown
from fencepost.errors import InvalidArgument, PayloadError

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = ["JSON", "Codec", "JsonCodec", "check_type", "encode_many"]

T = TypeVar("T")


class Codec(Protocol):
    """
    How payloads and results become bytes.

    `decode(encode(value), type) == value`, and equal values of a type give equal bytes: keys are
    compared by them. Both raise `PayloadError` in plain words.
    """

    def encode(self, value: object, /) -> bytes: ...
    def decode(self, body: bytes, type: TypeForm[T], /) -> T: ...


class JsonCodec:
    """The codec that a store has unless it is given another."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder(enc_hook=_dump, order="deterministic").encode
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    def encode(self, value: object, /) -> bytes:
        """The value as JSON. `PayloadError` if it has no faithful JSON."""
        try:
            try:
                body = self._encode(value)
            except TypeError:
                body = self._encode_other_keys(value)
            # msgspec writes NaN and the infinities as null, so only a null is worth a look.
            if b"null" in body:
                _refuse_nan(value)
        except (TypeError, ValueError, OverflowError, RecursionError, BufferError) as error:
            if isinstance(error, PayloadError):
                raise
            raise PayloadError(f"{type(value).__name__} cannot be encoded: {error}") from error
        return body

    def encode_many(self, values: Sequence[object], /) -> list[bytes]:
        """Each of them as `encode` would have it, without a step of Python for each."""
        try:
            bodies = list(map(self._encode, values))
        except Exception:  # one of them: `encode` finds out which, and what can be done
            return [self.encode(value) for value in values]
        if b"null" in b"\n".join(bodies):  # one look at all is half the price
            for value, body in zip(values, bodies, strict=True):
                if b"null" in body:
                    _refuse_nan(value)
        return bodies

    def _encode_other_keys(self, value: object) -> bytes:
        """Ordering asks for keys that are text; those that have a text are given it first."""
        textual = msgspec.to_builtins(value, enc_hook=_dump, str_keys=True)
        body = self._encode(textual)
        if len(body) != len(msgspec.json.encode(value, enc_hook=_dump)):
            raise PayloadError("two keys of one dict have the same text in JSON")
        return body

    def decode(self, body: bytes, type: TypeForm[T], /) -> T:
        """The body as a `type`. `PayloadError` names the field that does not fit."""
        try:
            value: T = self._decoder(type).decode(body)
        except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors
            raise PayloadError(str(error)) from error
        return value

    def _decoder(self, type: Any) -> msgspec.json.Decoder[Any]:
        try:
            decoder = self._decoders.get(type)
        except TypeError:  # an Annotated may carry what cannot be hashed
            return msgspec.json.Decoder(type, dec_hook=_load)
        if decoder is None:
            decoder = self._decoders[type] = msgspec.json.Decoder(type, dec_hook=_load)
        return decoder

    def check(self, type: Any) -> None:
        """`InvalidArgument` unless values of the type can be decoded."""
        try:
            foreign = next(_foreign(msgspec.inspect.type_info(type), set()), None)
        except Exception as error:  # a name that is not there, a union that JSON cannot tell apart
            raise InvalidArgument(
                f"{_name(type)} cannot be decoded: {short(str(error))}"
            ) from error
        if foreign is not None:
            hint = "; say typing.Any" if foreign is object else ""
            raise InvalidArgument(
                f"{_name(type)} cannot be decoded: {_name(foreign)} has no form in JSON{hint}"
            )


def encode_many(codec: Codec, values: Sequence[object]) -> list[bytes]:
    """All of them by any codec, by the built-in one at once. Raises `PayloadError`."""
    if isinstance(codec, JsonCodec):
        return codec.encode_many(values)
    return [codec.encode(value) for value in values]


def check_type(codec: Codec, type: Any) -> None:
    """At declaration: `InvalidArgument` for a type that the built-in codec could not decode."""
    if isinstance(codec, JsonCodec):
        codec.check(type)


def _name(type: Any) -> str:
    return getattr(type, "__qualname__", None) or shown(type)


# ---- pydantic, without importing it --------------------------------------------------------------


def _is_model(type: Any) -> bool:
    return hasattr(type, "model_dump_json") and hasattr(type, "model_validate_json")


def _dump(value: Any) -> Any:
    if _is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _load(type: Any, value: Any) -> Any:
    if _is_model(type):
        return type.model_validate_json(msgspec.json.encode(value))
    raise TypeError(f"{_name(type)} has no form in JSON")


# ---- looking into values and types ---------------------------------------------------------------


def _refuse_nan(value: object) -> None:
    pending = [msgspec.to_builtins(value, enc_hook=_dump, str_keys=True)]
    while pending:
        item = pending.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                raise PayloadError(f"{item} has no form in JSON")
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, (list, tuple)):
            pending.extend(item)


def _foreign(info: Any, seen: set[int]) -> Iterator[Any]:
    """The classes inside a type that msgspec would leave to a hook and that are no models."""
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        if not _is_model(info.cls):
            yield info.cls
    elif isinstance(info, (list, tuple)):
        for part in info:
            yield from _foreign(part, seen)
    elif isinstance(info, (msgspec.inspect.Type, msgspec.inspect.Field)):
        for name in info.__struct_fields__:
            part = getattr(info, name)
            if isinstance(part, (tuple, msgspec.inspect.Type)):
                yield from _foreign(part, seen)


JSON = JsonCodec()
