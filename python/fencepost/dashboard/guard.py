"""
Who may ask, and what every answer says of itself.

    1. The Host header is one of the names that were given: a name that somebody else's DNS leads
       here is refused, so their page cannot read as this one does.
    2. What another site's page sends is refused: by its Origin, and by Sec-Fetch-Site for the API.
    3. There are no cookies. An action is a POST of JSON with the token in a header of our own: no
       form can send that, and a script of another site has to ask first, and nobody here says yes.
    4. A token is compared in a time that does not tell how much of it was right.
"""

from __future__ import annotations

import hmac
from typing import Final, NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.dashboard.answers import Refused, refusal

__all__ = ["TOKEN_HEADER", "Guard", "Rules"]

TOKEN_HEADER: Final = "X-Fencepost-Token"
PORTS: Final = {"http": "80", "https": "443"}
OWN: Final = ("same-origin", "none")  # of Sec-Fetch-Site; none: typed by the user

# Trusted types: the page's own scripts, too, cannot turn text into markup.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
SAID: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Rules(NamedTuple):
    """What `fencepost.dashboard.app` was told."""

    hosts: frozenset[str]
    token: str | None
    allowed: frozenset[str]
    private: bool

    def has_token(self, request: Request) -> bool:
        given = request.headers.get(TOKEN_HEADER, "")
        return self.token is not None and hmac.compare_digest(
            given.encode("utf-8", "replace"), self.token.encode()
        )

    def may_read(self, request: Request) -> None:
        """Raises `Refused`, where reading is private."""
        if self.private and not self.has_token(request):
            raise Refused(401, "token", "reading needs the token")

    def may(self, name: str, request: Request) -> None:
        """Raises `Refused`, unless it is allowed and the token is there."""
        if name not in self.allowed:
            raise Refused(403, "not_allowed", f"this dashboard may not {ACTIONS.get(name, name)}")
        if not self.has_token(request):
            raise Refused(401, "token", "this needs the token")


ACTIONS: Final = {"payloads": "show payloads", "pause": "pause or resume"}


class Guard:
    """Around everything. What it refuses reaches no route."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def say(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SAID)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self._look(scope)
        except Refused as refused:
            await refusal(refused)(scope, receive, say)
            return
        root = scope.get("root_path", "")
        if scope["path"] in ("", root):  # the page's own addresses are relative to its folder
            await RedirectResponse(f"{root}/", 308)(scope, receive, say)
            return
        await self._app(scope, receive, say)

    def _look(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        asked = headers.getlist("host")
        host = asked[0].lower() if len(asked) == 1 else ""
        if "*" not in self._rules.hosts and _name(host) not in self._rules.hosts:
            raise Refused(
                403,
                "host",
                "this dashboard does not answer to that name: give it among its hosts",
            )
        origin = headers.get("origin")
        if origin is not None and _authority(origin.lower()) != _whole(host, scope["scheme"]):
            raise Refused(403, "origin", "another site's page asked for this")
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path.startswith("/api/") and headers.get("sec-fetch-site", "none") not in OWN:
            raise Refused(403, "origin", "another site's page asked for this")


def _name(host: str) -> str:
    """The name of `name:port`; that of an IPv6 address has its brackets."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].removesuffix(".")


def _authority(origin: str) -> str | None:
    """`name:port` of an origin; None: it has none, as that of a sandboxed page."""
    scheme, separator, host = origin.partition("://")
    return _whole(host, scheme) if separator else None


def _whole(host: str, scheme: str) -> str:
    """With the port, also where it is the scheme's own."""
    name = _name(host)
    port = host.removeprefix(name).removeprefix(".").removeprefix(":")
    return f"{name}:{port or PORTS.get(scheme, '')}"
