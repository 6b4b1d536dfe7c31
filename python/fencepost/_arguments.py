"""
How the call of a function becomes a payload, and a payload the call again.

The payload is one object, an entry for each argument given, by the name of its parameter, and the
codec sorts them by name: `send_mail.enqueue("ann@…", text="hi")` is `{"text":"hi","to":"ann@…"}`.
So equal calls are equal bytes, however they were spelled, and other languages can write it by hand.
What was not given is not written: the default is the one of the code that runs it. An argument that
this code does not know is refused, because leaving it out would be another call.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from fencepost.codec import Codec, check_type
from fencepost.errors import InvalidArgument, PayloadError

__all__ = ["Arguments"]

Bound = tuple[list[Any], dict[str, Any]]


class Arguments:
    """
    The parameters of one function.

    `InvalidArgument` at once for an annotation that cannot be resolved or decoded: what cannot run
    must not be enqueued.
    """

    def __init__(self, fn: Callable[..., Any], name: str, codec: Codec, *, context: bool) -> None:
        self.name = name
        self._codec = codec
        try:
            hints = typing.get_type_hints(fn, include_extras=True)
            signature = inspect.signature(fn)
        except (NameError, TypeError, ValueError) as error:
            raise InvalidArgument(f"{name}: its annotations cannot be read: {error}") from error
        parameters = list(signature.parameters.values())
        if context:
            if not parameters or parameters[0].kind not in (
                parameters[0].POSITIONAL_ONLY,
                parameters[0].POSITIONAL_OR_KEYWORD,
            ):
                raise InvalidArgument(f"{name}: context=True asks for a first parameter, for it")
            del parameters[0]
        self._signature = signature.replace(parameters=parameters)
        self._parameters = parameters
        plain = all(one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters)
        self._in_order = [one.name for one in parameters] if plain else []
        self.returns: Any = hints.get("return", Any)
        self._shape = self._shape_of(hints)

    def _shape_of(self, hints: Mapping[str, Any]) -> Any:
        """The payload as a msgspec Struct: one decoder for the whole call."""
        fields: list[tuple[str, Any, Any]] = []
        for parameter in self._parameters:
            kind: Any = hints.get(parameter.name, Any)
            if parameter.kind is parameter.VAR_POSITIONAL:
                kind = types.GenericAlias(list, (kind,))
            elif parameter.kind is parameter.VAR_KEYWORD:
                kind = types.GenericAlias(dict, (str, kind))
            self._checked(f"parameter {parameter.name}", kind)
            fields.append((parameter.name, kind, msgspec.UNSET))
        self._checked("its result", self.returns)
        return msgspec.defstruct(self.name, fields, forbid_unknown_fields=True)

    def _checked(self, what: str, kind: Any) -> None:
        try:
            check_type(self._codec, kind)
        except InvalidArgument as error:
            raise InvalidArgument(f"{self.name}: {what}: {error}") from error

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The payload of this call. `InvalidArgument` if it does not fit the signature."""
        if args and not kwargs and len(args) == len(self._in_order):
            # What `bind` would say of a call that leaves nothing to say, at a third of the price.
            return self._codec.encode(dict(zip(self._in_order, args, strict=True)))
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArgument(f"{self.name}: {error}") from None
        return self._codec.encode(bound.arguments)

    def decode(self, body: bytes) -> Bound:
        """The call in this payload. `PayloadError` if it is not one of this function."""
        given = self._codec.decode(body, self._shape)
        if isinstance(given, dict):  # a codec of the user's own that does not look at types
            given = self._converted(given)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        by_name = False
        for parameter in self._parameters:
            value = getattr(given, parameter.name)
            if value is msgspec.UNSET:
                if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    continue
                if parameter.default is parameter.empty:
                    raise PayloadError(f"{self.name}: the argument {parameter.name} is missing")
                by_name = True
            elif by_name and parameter.kind in (
                parameter.POSITIONAL_ONLY,
                parameter.VAR_POSITIONAL,
            ):
                raise PayloadError(f"{self.name}: an argument before {parameter.name} is missing")
            elif parameter.kind is parameter.VAR_POSITIONAL:
                args += value
            elif parameter.kind is parameter.VAR_KEYWORD:
                kwargs.update(value)
            elif parameter.kind is parameter.KEYWORD_ONLY or by_name:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        return args, kwargs

    def _converted(self, given: Any) -> Any:
        try:
            return msgspec.convert(given, self._shape)
        except (msgspec.ValidationError, RecursionError) as error:
            raise PayloadError(f"{self.name}: {error}") from error
