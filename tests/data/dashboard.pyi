"""fencepost.dashboard: one page over a file, and the JSON beneath it, as an ASGI application; the extra [web]."""
from collections.abc import Collection
from starlette.applications import Starlette
from fencepost import App, Store, StrPath

ALLOWED: tuple[str, ...]  # what `allow` may name: payloads, replay, cancel, pause, confirm, retry, release, discard
LOOPBACK: tuple[str, ...]

def app(source: Store | App | StrPath, /, *, allow: Collection[str] = (), token: str | None = None, private: bool = False,
        hosts: Collection[str] = LOOPBACK) -> Starlette: ...  # what is allowed or private needs a token
