"""
The pytest plugin: one fixture, `fencepost`.

    def test_welcome(fencepost):
        kit = fencepost(shop.app)
        shop.sign_up("ann@example.com")
        kit.assert_enqueued(shop.send_mail, "ann@example.com", "welcome")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fencepost.testing import Kit

__all__ = ["fencepost"]


@pytest.fixture
def fencepost() -> Iterator[Callable[..., Kit]]:
    """
    Call it with your App, and its file is a temporary one until the test is over; the Kit that it
    gives turns the clock and runs what is due. `path=` and `now=` are those of
    `fencepost.testing.override`.
    """
    from fencepost.testing import override

    with ExitStack() as kits:

        def kit(app: Any, path: Any = None, *, now: Any = None) -> Kit:
            return kits.enter_context(override(app, path, now=now))

        yield kit
