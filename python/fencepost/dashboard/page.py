"""The page itself: a few small files of the package, read once, each with its tag."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

__all__ = ["page"]

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FRESH: Final = "no-cache"  # kept, and asked about each time: an upgrade is seen at once


class Asset:
    """One file, and how it is answered."""

    def __init__(self, body: bytes, type: str) -> None:
        self._body = body
        self._headers = {
            "Content-Type": type,
            "Cache-Control": FRESH,
            "ETag": f'"{sha256(body).hexdigest()[:32]}"',
        }

    async def __call__(self, request: Request) -> Response:
        known = request.headers.get("if-none-match", "")
        tags = [tag.strip().removeprefix("W/") for tag in known.split(",")]
        if self._headers["ETag"] in tags or known.strip() == "*":
            return Response(status_code=304, headers=self._headers)
        return Response(self._body, headers=self._headers)


def page() -> Iterator[Route]:
    """A route for each file of the package's own folder; no path of a request is ever opened."""
    for file in (resources.files("fencepost.dashboard") / "assets").iterdir():
        name, dot, suffix = file.name.rpartition(".")
        if dot + suffix in TYPES:
            path = "/" if file.name == "index.html" else f"/assets/{file.name}"
            yield Route(path, Asset(file.read_bytes(), TYPES[dot + suffix]).__call__, name=name)
