"""The caller's own SQL, as the core runs it inside an open transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost._binding.calls import OpenTx, checked, copied, pointer, text
from fencepost._binding.lib import ffi, lib
from fencepost._binding.pack import Packed

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Guest"]


class Guest:
    """One prepared statement of the caller's own SQL, to be closed by `with`."""

    __slots__ = ("_guest", "_tx")

    def __init__(self, tx: OpenTx, sql: str) -> None:
        self._tx = tx
        encoded = sql.encode()
        guest = ffi.new("fp_guest **")
        checked(lib.fp_guest_open, pointer(tx), encoded, len(encoded), guest)
        self._guest = guest[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        lib.fp_guest_close(self._guest)

    def parameters(self) -> list[str | None]:
        """The names of the parameters in order, as they are written: `:a`; None: it has none."""
        count = lib.fp_guest_parameter_count(self._guest)
        names = [lib.fp_guest_parameter(self._guest, i) for i in range(1, count + 1)]
        return [text(name) if name else None for name in names]

    def run(self, sets: int, params: bytes) -> tuple[Packed, int, int]:
        """Once for each set of packed parameters: rows, rows written, the last rowid."""
        rows = ffi.new("fp_rows *")
        changed, rowid = ffi.new("int64_t *"), ffi.new("int64_t *")
        try:
            checked(lib.fp_guest_run, self._guest, sets, params, len(params), rows, changed, rowid)
            return copied(rows), changed[0], rowid[0]
        finally:
            lib.fp_rows_free(rows)
