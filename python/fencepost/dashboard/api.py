"""
The JSON beneath the page. Field names stay; each call of the store is in a thread of our own few,
so that a busy file holds up neither the event loop nor the threads of the application around us.

    GET  api/about                  what this dashboard is, and what it may do
    GET  api/status                 counts and ages by queue
    GET  api/messages               one page of a listing: state, queue, kind, failure, lane, since,
                                    before, after, limit
    GET  api/messages/ID            one message; …/ID/content its payload, headers and result
    GET  api/inbox                  one message by its own id: address, message_id
    GET  api/runs                   runs of workflows: state, name, after, limit
    GET  api/run                    one of them by its id, with its steps
    GET  api/lanes                  those of a queue that stand still: queue, after, limit
    GET  api/schedules, api/workers
    POST api/replay, retry, confirm, cancel, release, pause, resume, discard, cancel-run,
         resume-run                 (actions.py)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, TypeVar, cast, get_args

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import fencepost
from fencepost import _operator as operator
from fencepost._file import file_of
from fencepost._workflow.timeline import timeline
from fencepost.dashboard import actions
from fencepost.dashboard.answers import Refused, answer, in_words, refusal
from fencepost.dashboard.filter import Filter
from fencepost.dashboard.guard import Rules
from fencepost.dashboard.source import Source

__all__ = ["routes"]

T = TypeVar("T")

THREADS: Final = 4
QUEUES_MAX: Final = 200  # shown; those with most in line
TEXT_MAX: Final = 100_000  # characters of a payload
BODY_MAX: Final = 65_536  # bytes of a request


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    """What comes with an address."""


class _About(_Asked):
    pass


class _Listing(Filter, kw_only=True, forbid_unknown_fields=True):
    state: fencepost.State
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


class _One(_Asked):
    id: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class _Lanes(_Asked):
    queue: str
    after: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


class _Runs(_Asked):
    state: fencepost.RunState | None = None
    name: str | None = None
    after: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


class _Run(_Asked):
    id: str


class _Received(_Asked):
    address: str
    message_id: str


def routes(source: Source, rules: Rules) -> Iterator[Route]:
    """All of the API."""
    limiter = anyio.CapacityLimiter(THREADS)

    async def answered(work: Callable[[], Any]) -> Response:
        try:
            return answer(await anyio.to_thread.run_sync(work, limiter=limiter))
        except fencepost.Error as error:
            return refusal(in_words(error))
        except Refused as refused:
            return refusal(refused)

    def get(
        path: str, type: type[T], look: Callable[[T], Any], *, secret: str | None = None
    ) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                if secret is None:
                    rules.may_read(request)
                else:
                    rules.may(secret, request)
                asked = _asked({**request.path_params, **request.query_params}, type)
            except Refused as refused:
                return refusal(refused)
            return await answered(lambda: look(asked))

        return Route(f"/api/{path}", endpoint, methods=["GET"])

    def post(action: actions.Action[T]) -> Route:
        async def endpoint(request: Request) -> Response:
            def work() -> Any:
                with source.store() as store:
                    return action.act(store, wanted)

            try:
                rules.may(action.allowed_as, request)
                wanted = _wanted(request, await _body(request), action.type)
            except Refused as refused:
                return refusal(refused)
            return await answered(work)

        return Route(f"/api/{action.name}", endpoint, methods=["POST"])

    async def about(request: Request) -> Response:
        return answer(
            {
                "allowed": sorted(rules.allowed),
                "private": rules.private,
                "failures": get_args(fencepost.FailureKind),
            }
        )

    looks = _Looks(source)
    yield Route("/api/about", about, methods=["GET"])
    yield get("status", _About, looks.status)
    yield get("messages", _Listing, looks.messages)
    yield get("messages/{id}", _One, looks.message)
    yield get("messages/{id}/content", _One, looks.content, secret="payloads")
    yield get("inbox", _Received, looks.received)
    yield get("runs", _Runs, looks.runs)
    yield get("run", _Run, looks.run)
    yield get("lanes", _Lanes, looks.lanes)
    yield get("schedules", _About, looks.schedules)
    yield get("workers", _About, looks.workers)
    for action in actions.ACTIONS:
        yield post(action)


class _Looks:
    """What is read, of one source."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def status(self, asked: _About) -> dict[str, Any]:
        told = operator.bounded(self._source.status(), QUEUES_MAX)
        queues = [
            {"name": name, "rest": "profile" not in queue, **queue, "ended": operator.ended(queue)}
            for name, queue in told["queues"].items()
        ]
        return {**told, "queues": queues}

    def messages(self, asked: _Listing) -> dict[str, Any]:
        with self._source.store() as store:
            page = asked.page(store, asked.state, asked.limit)
        return {"messages": [operator.message_told(one) for one in page], "next": page.next}

    def message(self, asked: _One) -> dict[str, Any]:
        with self._source.store() as store:
            found = store.message(asked.id)
        if found is None:
            raise Refused(404, "gone", f"there is no message {asked.id}")
        return operator.message_told(found)

    def content(self, asked: _One) -> dict[str, Any]:
        with self._source.store() as store:
            content = store.content(asked.id)
        told = operator.content_told(content)
        return {"id": asked.id} | {
            name: None if value is None else _shown(value) for name, value in told.items()
        }

    def received(self, asked: _Received) -> dict[str, Any]:
        with self._source.store() as store:
            inbox = fencepost.App().inbox(asked.address, cast("type[Any]", Any)).at(store)
            found = inbox.message(asked.message_id)
        if found is None:
            raise Refused(404, "gone", f"there is no message {asked.message_id} at {asked.address}")
        return operator.message_told(found)

    def runs(self, asked: _Runs) -> dict[str, Any]:
        with self._source.store() as store:
            page = store.runs(asked.state, name=asked.name, after=asked.after, limit=asked.limit)
        return {"runs": [operator.run_told(run) for run in page], "next": page.next}

    def run(self, asked: _Run) -> dict[str, Any]:
        with self._source.store() as store:
            return operator.timeline_told(timeline(file_of(store), asked.id))

    def lanes(self, asked: _Lanes) -> dict[str, Any]:
        with self._source.store() as store:
            found = store.halted_lanes(asked.queue, after=asked.after, limit=asked.limit)
        return {"lanes": [one._asdict() for one in found]}

    def schedules(self, asked: _About) -> dict[str, Any]:
        with self._source.store() as store:
            return {"schedules": operator.schedules(store)}

    def workers(self, asked: _About) -> dict[str, Any]:
        with self._source.store() as store:
            return {"workers": operator.workers(store)}


def _shown(value: Any) -> dict[str, Any]:
    """As text, because a browser's numbers would not hold all of ours."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return {"text": text[:TEXT_MAX], "cut": len(text) > TEXT_MAX}


def _asked(given: dict[str, Any], type: type[T]) -> T:
    try:
        return msgspec.convert(given, type, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, "invalid", str(error)) from None


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_MAX:
            raise Refused(413, "invalid", f"the request is longer than {BODY_MAX:,} bytes")
    return bytes(body)


def _wanted(request: Request, body: bytes, type: type[T]) -> T:
    # A form of another site could not say that it is JSON without asking first.
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Refused(415, "invalid", "the request is to be application/json")
    try:
        return msgspec.json.decode(body, type=type)
    except msgspec.MsgspecError as error:
        raise Refused(400, "invalid", str(error)) from None
