"""The dashboard in a server of its own, for whoever has no application to mount it in."""

from __future__ import annotations

import ipaddress
import os
import secrets
import signal
import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from fencepost._worker.signals import STOPPING, leave
from fencepost.cli.database import Database
from fencepost.cli.output import document, json_option, printable

if TYPE_CHECKING:
    from starlette.types import ASGIApp

ALL: Final = "all"
TOKEN: Final = "FENCEPOST_DASHBOARD_TOKEN"  # in the environment: others see a command's arguments


@click.command(short_help="A page over the file, in the browser.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True)
@click.option(
    "--allow",
    metavar="DEED",
    multiple=True,
    help="Beside reading: payloads, replay, cancel, pause, confirm, retry, release, discard; all.",
)
@click.option("--private", is_flag=True, help="Reading needs the token, too.")
@click.option("--name", "names", multiple=True, help="A further host name it answers to.")
@json_option
@click.pass_obj
def dashboard(
    database: Database,
    host: str,
    port: int,
    allow: tuple[str, ...],
    private: bool,
    names: tuple[str, ...],
    as_json: bool,
) -> None:
    """
    A page over the file, in the browser, until Ctrl-C. Needs the extra [web].

    It reads, unless more is allowed by name; that needs a token, which is in the address that is
    printed, or which FENCEPOST_DASHBOARD_TOKEN says. Where others than this machine can reach it,
    reading needs the token, too; put TLS in front of it there.
    """
    path = database.required()
    for needed in ("starlette", "uvicorn"):
        if find_spec(needed) is None:
            raise click.UsageError(f"the dashboard needs {needed}: pip install 'fencepost[web]'")
    from fencepost import dashboard as room

    private = private or not _is_own(host)
    actions = room.ALLOWED if ALL in allow else allow
    token = os.environ.get(TOKEN) or secrets.token_urlsafe(24) if actions or private else None
    shown = f"[{host}]" if ":" in host else host
    app = room.app(
        path,
        allow=actions,
        token=token,
        private=private,
        hosts=[*room.LOOPBACK, shown, *names],
    )
    for number in STOPPING:  # the server raises them once more when it has ended
        signal.signal(number, leave)
    with _listen(host, port) as listening:
        url = f"http://{shown}:{listening.getsockname()[1]}/" + (f"#token={token}" if token else "")
        if as_json:
            document({"url": url, "private": private, "allowed": sorted(actions)})
        else:
            click.echo(f"{printable(path)}: {url}")
        _serve(app, listening)


def _is_own(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    """Before anything is said of it: whoever is told the port finds it open."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise click.ClickException(f"{host}, port {port}: {error.strerror or error}") from None


def _serve(app: ASGIApp, listening: socket.socket) -> None:
    """No lines for requests, and no name of the server."""
    import uvicorn

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, lifespan="off"
    )
    uvicorn.Server(config).run(sockets=[listening])
