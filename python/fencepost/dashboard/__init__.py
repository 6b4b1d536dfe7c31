"""
The dashboard: one page over a file, and the JSON beneath it, as an ASGI application.

    dashboard = fencepost.dashboard.app("app.db")
    fastapi_app.mount("/fencepost", dashboard)

It reads, unless what it may do is allowed by name; what it may do needs a token in a header.
Nothing is held between two requests: neither a transaction nor, of a file that is given by its
path, the file itself.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from typing import Final

from fencepost._checks import several, shown
from fencepost.app import App
from fencepost.errors import InvalidArgument
from fencepost.store import Store
from fencepost.values import StrPath

if find_spec("starlette") is None:
    raise ModuleNotFoundError(
        "the dashboard needs starlette: pip install 'fencepost[web]'", name="starlette"
    )

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from fencepost.dashboard.answers import lost
from fencepost.dashboard.api import routes
from fencepost.dashboard.guard import Guard, Rules
from fencepost.dashboard.page import page
from fencepost.dashboard.source import Source

__all__ = ["ALLOWED", "LOOPBACK", "app"]

ALLOWED: Final[tuple[str, ...]] = (
    *("payloads", "replay", "cancel", "pause", "confirm", "retry", "release", "discard"),
)
LOOPBACK: Final[tuple[str, ...]] = ("localhost", "127.0.0.1", "[::1]")
TOKEN_MIN: Final = 16  # characters
TOKEN_MAX: Final = 1000


def app(
    source: Store | App | StrPath,
    /,
    *,
    allow: Collection[str] = (),
    token: str | None = None,
    private: bool = False,
    hosts: Collection[str] = LOOPBACK,
) -> Starlette:
    """
    The dashboard of a store, of an App's own, or of the file at a path, which need not be there
    yet; to be run by itself or mounted in another ASGI application.

    `allow` names what it may do beside reading: "payloads" (show them when somebody asks for one),
    "replay", "cancel", "pause" (and resume), "confirm" and "retry" (of sends in doubt), "release"
    (lanes that stand still), "discard" (dead letters). Each of these needs the `token`, of 16
    characters or more; with `private` reading needs it, too. `hosts` are the names it answers to,
    so that no other site's name can be made to lead here; "*" leaves that to whoever stands in
    front.

    Raises `InvalidArgument`, also where something is allowed and there is no token.
    """
    allowed = _names(allow, "allow")
    unknown = sorted(allowed.difference(ALLOWED))
    if unknown:
        raise InvalidArgument(f"allow is of {', '.join(ALLOWED)}, not {shown(unknown[0])}")
    if token is None and (allowed or private):
        raise InvalidArgument("what is allowed or private needs a token")
    if token is not None and not (
        TOKEN_MIN <= len(token) <= TOKEN_MAX and token.isascii() and token.isprintable()
    ):
        raise InvalidArgument(f"a token is {TOKEN_MIN} to {TOKEN_MAX} visible ASCII characters")
    answers_to = frozenset(name.lower() for name in _names(hosts, "hosts"))
    rules = Rules(answers_to, token, allowed, private=private)
    made = Starlette(
        routes=[*page(), *routes(Source(source), rules)],
        exception_handlers={HTTPException: lost},
    )
    made.add_middleware(Guard, rules=rules)
    return made


def _names(given: Collection[str], what: str) -> frozenset[str]:
    if isinstance(given, str):  # a collection, too, but of letters
        raise InvalidArgument(f"{what} is a list of names, not {shown(given)}")
    return frozenset(several(given, what, str))
