"""Which file a command speaks to."""

from __future__ import annotations

from dataclasses import dataclass

import click

import fencepost


@dataclass(frozen=True)
class Database:
    """What `--database` or FENCEPOST_DATABASE said; `named` when it was the option."""

    path: str | None
    named: bool

    def required(self) -> str:
        """The path. A usage error without one."""
        if not self.path:
            raise click.UsageError("which file? Name it with --database or FENCEPOST_DATABASE")
        return self.path

    def open(self, *, create: bool = False) -> fencepost.Store:
        """The store. To look is not to create: without `create`, a missing file is an error."""
        return fencepost.open(self.required(), create=create)
