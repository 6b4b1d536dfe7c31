"""
What stands around a payload that crosses a border: whose contract it keeps, what it belongs to.

An envelope travels as one header of its message, so it is part of what is compared when the same
message comes again, and whatever carries headers carries it. Its payload's type may be found by the
contract's name: `Contracts` is the list of those that an inbox knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from fencepost._checks import flag, name_bytes, shown, whole
from fencepost.codec import JSON
from fencepost.errors import InvalidArgument, PayloadError

__all__ = ["HEADER", "NOTHING", "Contracts", "Envelope", "Fault", "Unfit", "beside", "checked"]
__all__ += ["plain", "without_envelope"]

T = TypeVar("T")

HEADER: Final = "fencepost-envelope"  # the header that a message carries it in
VERSION: Final = 1  # of what stands in it
VERSION_MAX: Final = 2**31 - 1
NANOSECONDS_MAX: Final = 999
OFFSET_MAX: Final = 14 * 60  # minutes from UTC
MINUTE: Final = 60  # seconds


class Unfit(PayloadError):
    """A message that can never be handled as it is; `kind` is that of its failure."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Fault(NamedTuple):
    """What a message says that is about a failure of its sender's, instead of a payload."""

    code: str
    message: str = ""
    category: str = ""
    transient: bool = False  # the sender may do better another time
    details: Any = None  # JSON


class Envelope(NamedTuple):
    """
    What stands around one payload. All of it is compared when the same message comes again.

    `sent_at` is the sender's own clock, with its offset from UTC in whole minutes, and comes out as
    it went in; `nanoseconds` are those below its microsecond, for senders that count more finely.
    With a `fault` the message has no payload. `version` is that of the envelope's own form; a
    worker makes a dead letter of one that it does not know.
    """

    contract: str | None = None  # the stable name of the payload's type
    trace: str | None = None  # a W3C traceparent, where CloudEvents are to carry it
    correlation: str | None = None  # what this belongs to
    causation: str | None = None  # the id of the message that this follows from
    sent_at: datetime | None = None
    nanoseconds: int = 0
    fault: Fault | None = None
    version: int = VERSION

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Envelope:
        """The one in a message's headers; an empty one if there is none. `PayloadError`."""
        if not isinstance(headers, Mapping):
            raise InvalidArgument(f"headers are text by name, not {shown(headers)}")
        text = headers.get(HEADER)
        if text is None:
            return NOTHING
        try:
            version = msgspec.json.decode(text, type=_Versioned).version
            if version != VERSION:
                raise Unfit("unsupported_version", f"its envelope is of version {version}")
            said = msgspec.structs.asdict(msgspec.json.decode(text, type=_Written))
            if said["fault"] is not None:
                said["fault"] = Fault(**msgspec.structs.asdict(said["fault"]))
            return checked(cls(**said))
        except Unfit:
            raise
        except (msgspec.MsgspecError, UnicodeEncodeError, InvalidArgument) as error:
            raise PayloadError(f"its envelope cannot be read: {error}") from error

    def following(self, message_id: str) -> Envelope:
        """
        The envelope of what follows from the message with this one: of the same trace, caused by
        it, and belonging to what it belongs to, or else to it.
        """
        correlation = self.correlation or message_id
        return Envelope(trace=self.trace, correlation=correlation, causation=message_id)


NOTHING: Final = Envelope()


def checked(envelope: Envelope) -> Envelope:
    """The same. `InvalidArgument` if it cannot be one."""
    if envelope is NOTHING:
        return envelope
    if not isinstance(envelope, Envelope):
        raise InvalidArgument(f"envelope is an Envelope, not {shown(envelope)}")
    if envelope.contract is not None:
        _name(envelope.contract, "the name of a contract")
    for field in ("trace", "correlation", "causation"):
        value = getattr(envelope, field)
        if value is not None:
            name_bytes(value, field)
    whole(envelope.version, "the envelope's version", 1, VERSION_MAX)
    whole(envelope.nanoseconds, "nanoseconds", 0, NANOSECONDS_MAX)
    if envelope.sent_at is not None:
        _check_moment(envelope.sent_at)
    elif envelope.nanoseconds:
        raise InvalidArgument("nanoseconds without sent_at are of no moment")
    if envelope.fault is not None:
        _check_fault(envelope.fault)
    return envelope


def beside(envelope: Envelope, headers: Mapping[str, str] | None) -> Mapping[str, str]:
    """All that is written beside a payload. `InvalidArgument`."""
    if headers is None:
        headers = {}
    if not isinstance(headers, Mapping):
        raise InvalidArgument(f"headers are text by name, not {shown(headers)}")
    if HEADER in headers:
        raise InvalidArgument(f"{HEADER} is said by the envelope itself")
    if any(not str(name).strip() for name in headers):
        raise InvalidArgument("a header's name is blank")
    if envelope == NOTHING:  # also one that was made
        return headers
    return {**headers, HEADER: JSON.encode(plain(envelope)).decode()}


def plain(envelope: Envelope) -> dict[str, Any]:
    """What there is of it, as JSON has it."""
    fields = {name: value for name, value in envelope._asdict().items() if value}
    if envelope.fault is not None:
        fields["fault"] = envelope.fault._asdict()
    if envelope.sent_at is not None:
        fields["sent_at"] = envelope.sent_at.isoformat()
    return fields


def without_envelope(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers that a sender gave beside it."""
    if HEADER not in headers:
        return headers
    return {name: value for name, value in headers.items() if name != HEADER}


class Contracts(Generic[T]):
    """
    Payload types by the stable names of their contracts, each once: the type of an inbox that takes
    several.

        contracts = Contracts[Paid | Refunded]({"paid.v1": Paid, "refunded.v1": Refunded})
        payments = app.inbox("payments", contracts)

    A payload is accepted under the name of its own class; bytes under the one that their envelope
    says. `InvalidArgument` for a class without a name, before anything is written. A message whose
    contract is unknown when it is handled is a dead letter of kind "unknown_contract".
    """

    def __init__(self, types: Mapping[str, type[T]], /) -> None:
        try:
            self._types = dict(types)
        except (TypeError, ValueError):
            self._types = {}
        if not self._types:
            raise InvalidArgument(f"contracts are types by name, not {shown(types)}")
        self._names: dict[type[Any], str] = {}
        for name, kind in self._types.items():
            _name(name, "the name of a contract")
            if not isinstance(kind, type):
                raise InvalidArgument(f"contract {name} is of a class, not {shown(kind)}")
            if kind in self._names:
                raise InvalidArgument(f"{self._names[kind]} and {name} are of the same class")
            self._names[kind] = name

    def __repr__(self) -> str:
        return f"<Contracts {', '.join(self._types)}>"

    @property
    def types(self) -> Mapping[str, type[T]]:
        return dict(self._types)

    def name_of(self, payload: object) -> str:
        """`InvalidArgument` if its class has none."""
        name = self._names.get(type(payload))
        if name is None:
            raise InvalidArgument(f"{type(payload).__name__} is of no contract here")
        return name

    def type_of(self, name: str | None) -> type[T]:
        """`PayloadError` for a name that is none here."""
        found = None if name is None else self._types.get(name)
        if found is None:
            told = (
                "it names no contract"
                if name is None
                else f"there is no contract {shown(name)} here"
            )
            raise Unfit("unknown_contract", told)
        return found

    def _envelope(self, payload: object, envelope: Envelope) -> Envelope:
        """The envelope with the name of the payload's contract; that of bytes is said already."""
        if envelope.fault is not None:
            return envelope
        if isinstance(payload, bytes):
            if envelope.contract is None:
                raise InvalidArgument("bytes are of the contract that their envelope names")
            return envelope
        name = self.name_of(payload)
        if envelope.contract not in (None, name):
            raise InvalidArgument(f"the payload is of contract {name}, not {envelope.contract}")
        return envelope._replace(contract=name)


# ---- as it is written ----------------------------------------------------------------------------


class _Versioned(msgspec.Struct):
    """Of whatever version it is, it says of which."""

    version: int


class _WrittenFault(msgspec.Struct):
    code: str
    message: str = ""
    category: str = ""
    transient: bool = False
    details: Any = None


class _Written(_Versioned):
    contract: str | None = None
    trace: str | None = None
    correlation: str | None = None
    causation: str | None = None
    sent_at: datetime | None = None
    nanoseconds: int = 0
    fault: _WrittenFault | None = None


def _name(value: object, what: str) -> None:
    name_bytes(value, what)
    if not isinstance(value, str) or not value or value != value.strip():
        raise InvalidArgument(f"{what} is text without blanks around it, not {shown(value)}")


def _check_moment(value: object) -> None:
    offset = value.utcoffset() if isinstance(value, datetime) else None
    if offset is None:
        raise InvalidArgument(f"sent_at is a datetime with a zone, not {shown(value)}")
    minutes, rest = divmod(offset.total_seconds(), MINUTE)
    if rest or abs(minutes) > OFFSET_MAX:
        raise InvalidArgument(
            f"sent_at is at most 14 hours of whole minutes from UTC, not {offset}"
        )


def _check_fault(fault: Fault) -> None:
    if not isinstance(fault, Fault):
        raise InvalidArgument(f"a fault is a Fault, not {shown(fault)}")
    _name(fault.code, "the code of a fault")
    name_bytes(fault.message, "the message of a fault")
    name_bytes(fault.category, "the category of a fault")
    flag(fault.transient, "transient")
