"""Receivers of webhooks: real HTTP servers of the standard library, on free ports."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from commands import PATIENCE

HOST = "127.0.0.1"


class Post(NamedTuple):
    """A request that came in, its headers by their names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int  # the port at its other end


class Reply(NamedTuple):
    status: int = 204
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Raw(NamedTuple):
    """What is written instead of an answer; then it hangs up."""

    words: bytes = b""
    hangs: bool = False  # not before the receiver ends
    endless: bytes = b""  # and this again and again, until nobody listens any more


Answer = Callable[[Post], Reply | Raw]


class Receiver(ThreadingHTTPServer):
    """Answers each POST with what `answer` says of it; keeps all that came."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, answer: Answer, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.answer = answer
        self.posts: list[Post] = []
        self.ended = threading.Event()
        self.endless_bytes = 0  # how much of what has no end was taken from us

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/hook"

    def events(self) -> list[str]:
        """The ids of all that came, in their order."""
        return [post.headers["webhook-id"] for post in self.posts]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hangs up in the middle is what many of these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        post = Post(self.path, headers, body, self.client_address[1])
        self.server.posts.append(post)
        said = self.server.answer(post)
        if isinstance(said, Raw):
            self.wfile.write(said.words)
            while said.endless:
                self.server.endless_bytes += self.wfile.write(said.endless)
            if said.hangs:
                self.server.ended.wait(PATIENCE)
            self.close_connection = True
            return
        self.send_response(said.status)
        for name, value in said.headers.items():
            self.send_header(name, value)
        if said.status >= 200 and said.status != 204:
            self.send_header("content-length", str(len(said.body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(said.body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def receiver(answer: Answer = lambda post: Reply(), *, port: int = 0) -> Iterator[Receiver]:
    with Receiver(answer, port) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()


def in_turn(*answers: Reply | Raw) -> Answer:
    """These, one after the other; then it arrived."""
    left = list(answers)
    return lambda post: left.pop(0) if left else Reply()


def free_port() -> int:
    """One that nobody listens on."""
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])
