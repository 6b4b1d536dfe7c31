"""
Shelves: what another library keeps in the file, by keys whose order means something to it.

A key sorts as its UTF-8 bytes do. Each call is one commit, or part of `tx`; looking waits for no
writer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from fencepost._binding import pack
from fencepost._binding.calls import Core, OpenTx, pointer
from fencepost._binding.lib import lib
from fencepost._binding.pack import Packed
from fencepost._checks import name_bytes

__all__ = ["Kept", "Shelf", "shelves"]

PAGE: Final = 200  # records of one look, at the most
LAST: Final = "\U0010ffff"  # sorts after every other character


class Kept(NamedTuple):
    """A record: what its key has, and when it was put, in microseconds of store time."""

    key: str
    value: bytes
    written_us: int


class Shelf:
    """The records under one id."""

    def __init__(self, core: Core, id: str) -> None:
        self._core = core
        self._id = name_bytes(id, "a shelf's id")

    def put(
        self, tx: OpenTx | None, records: Mapping[str, bytes], *, replace: bool = False
    ) -> None:
        """All of them, or none. A key that is there keeps what it has, unless `replace`."""
        keys = [name_bytes(key, "a key") for key in records]
        values, value_bytes = pack.joined(list(records.values()))
        laid = pack.Borrowed("fp_load *")
        into = laid.into
        into.id, into.id_bytes = laid.view(self._id), len(self._id)
        into.count, into.replace = len(keys), replace
        into.keys = laid.view(b"".join(keys))
        into.key_bytes = laid.view(array("i", map(len, keys)), "int32_t[]")
        into.values, into.value_bytes = laid.view(values), laid.view(value_bytes, "uint32_t[]")
        self._core._call(lib.fp_shelf_put, pointer(tx), into)

    def erase(self, tx: OpenTx | None, start: str, upto: str) -> int:
        """Those from `start` on and before `upto`; how many there were."""
        laid = _range(self._id, start, upto)
        return self._core._number(lib.fp_shelf_erase, pointer(tx), laid.into)

    def walk(
        self,
        tx: OpenTx | None,
        start: str,
        upto: str,
        *,
        backwards: bool = False,
        values: bool = True,
        page: int = PAGE,
    ) -> Iterator[Kept]:
        """
        Those from `start` on and before `upto`, in the order of their keys, page by page, each as
        it then is. Without `values` all of these are empty.
        """
        while True:
            laid = _range(self._id, start, upto)
            arguments = (pointer(tx), laid.into, backwards, values, page)
            found = list(_kept(self._core._rows(lib.fp_shelf_page, *arguments), values=values))
            yield from found
            if not found:
                return
            if backwards:
                upto = found[-1].key
            else:
                start = f"{found[-1].key}\x01"  # nothing sorts between: no key has a NUL

    def get(self, tx: OpenTx | None, key: str) -> Kept | None:
        """What the key has."""
        return next(self.walk(tx, key, f"{key}\x01", page=1), None)


def shelves(core: Core, tx: OpenTx | None, prefix: str) -> Iterator[str]:
    """The ids that begin with `prefix` and go on, in their order, page by page."""
    after = prefix
    while True:
        laid = _range(b"", after, prefix + LAST)
        found = core._rows(lib.fp_shelf_ids, pointer(tx), laid.into, PAGE)
        at = 0
        for (length,) in pack.records(found):
            after = found.blob[at : at + length].decode()
            at += length
            yield after
        if not at:
            return


def _range(id: bytes, start: str, upto: str) -> pack.Borrowed:
    laid = pack.Borrowed("fp_range *")
    for field, data in (
        ("id", id),
        ("from", name_bytes(start, "a key")),
        ("upto", name_bytes(upto, "a key")),
    ):
        setattr(laid.into, field, laid.view(data))
        setattr(laid.into, f"{field}_bytes", len(data))
    return laid


def _kept(found: Packed, *, values: bool) -> Iterator[Kept]:
    at = 0
    for record in pack.records(found):
        parts, at = pack.parts(found.blob, at, record[2:])
        yield Kept((parts[0] or b"").decode(), (values and parts[1]) or b"", record[1])
