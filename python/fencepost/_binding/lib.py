"""
Which core: the one that wheels carry, or its hostile twin with asserts on and faults on demand.

Only the rooms of this package import from here: nobody else sees `ffi` or `lib`.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Final

__all__ = ["ffi", "lib"]

_hostile = os.environ.get("FENCEPOST_TEST_CORE") == "1"
_core: Any = importlib.import_module("fencepost._core_test" if _hostile else "fencepost._core")

ffi: Final[Any] = _core.ffi
lib: Final[Any] = _core.lib
