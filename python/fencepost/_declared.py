"""What is declared lives in a file; queues, outboxes and inboxes have a name and a type, too."""

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

__all__ = ["Declared", "Placed"]

T = TypeVar("T")


class Placed:
    """It lives in the file of `tx=`, else of `.at(store)`, else in its own: that of its App."""

    _bound: File | None = None  # by `at`

    def at(self, store: Store, /) -> Self:
        """The same in this store."""
        other = copy.copy(self)
        other._bound = file_of(store)
        return other

    def _file(self, tx: Tx | None) -> File:
        if self._bound is not None:
            return self._bound
        named = getattr(tx, "_file", None)  # what is no Transaction is refused by `unwrap`
        return named if isinstance(named, File) else self._own_file()

    def _own_file(self) -> File:
        raise NotImplementedError


class Declared(Placed, Generic[T]):
    """By a store's own method it lives in that store. It is made in the file at its first use."""

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

    def _own_file(self) -> File:
        if self._home is None:
            raise InvalidArgument(f"{self!r} is in no store: use .at(store)")
        return self._home()
