"""Asking an ASGI application in this process, as a browser on this machine would."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from starlette.types import ASGIApp

TOKEN = "correct-horse-battery"


class Web:
    """One page's requests; `token` goes with each, if there is one."""

    def __init__(self, app: ASGIApp, *, token: str | None = None, host: str = "localhost") -> None:
        self._app = app
        self._headers = {} if token is None else {"X-Fencepost-Token": token}
        self._base = f"http://{host}"

    def ask(self, method: str, path: str, **how: Any) -> httpx.Response:
        given = how.pop("headers", {})
        pairs = given if isinstance(given, list) else list(given.items())
        headers = [*self._headers.items(), *pairs]

        async def one() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, client=("127.0.0.1", 1))
            async with httpx.AsyncClient(transport=transport, base_url=self._base) as client:
                return await client.request(method, path, headers=headers, **how)

        return asyncio.run(one())

    def get(self, path: str, **params: Any) -> Any:
        """The JSON of an answer that is one."""
        answer = self.ask("GET", f"/api/{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, action: str, body: Any) -> Any:
        answer = self.ask("POST", f"/api/{action}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, method: str, path: str, **how: Any) -> tuple[int, str, str]:
        """Status, type and sentence of an answer that is none."""
        answer = self.ask(method, path, **how)
        error = answer.json()["error"]
        assert list(answer.json()) == ["error"]
        assert list(error) == ["type", "message"]
        return answer.status_code, error["type"], error["message"]
