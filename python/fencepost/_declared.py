"""What queues, outboxes and inboxes have in common: a name, a type, and the file they live in."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fencepost._file import File, file_of
from fencepost.codec import check_type
from fencepost.errors import InvalidArgument
from fencepost.policies import Declaration
from fencepost.transactions import Tx

if TYPE_CHECKING:
    from typing_extensions import Self

    from fencepost.store import Store

__all__ = ["Declared"]

T = TypeVar("T")


class Declared(Generic[T]):
    """
    Of a store's own method it lives in that store. Of an App's it lives in the file of `tx=`, else
    of `.at(store)`, else in the App's own. It is made in the file at its first use.
    """

    def __init__(
        self,
        declaration: Declaration,
        type: Any,
        *,
        bound: File | None = None,
        home: Callable[[], File] | None = None,
    ) -> None:
        self.type = type
        self._declaration = declaration
        self._bound = bound
        self._home = home
        if bound is not None:
            check_type(bound.codec, type)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._declaration.name}>"

    def at(self, store: Store, /) -> Self:
        """The same in this store."""
        other = copy.copy(self)
        other._bound = file_of(store)
        return other

    def _file(self, tx: Tx | None) -> File:
        """Which file: that of the transaction, of `.at()`, or of the App."""
        if self._bound is not None:
            return self._bound
        named = getattr(tx, "_file", None)  # what is no Transaction is refused by `unwrap`
        if isinstance(named, File):
            return named
        if self._home is None:
            raise InvalidArgument(f"{self!r} is in no store: use .at(store)")
        return self._home()
