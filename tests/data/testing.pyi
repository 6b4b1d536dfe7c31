"""fencepost.testing: the same C core, a clock you turn by hand, and a worker that dies where you say."""
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Literal, NamedTuple, ParamSpec
from fencepost import App, Context, Job, Message, Span, StrPath, Store, Workflow
P = ParamSpec("P")
Point = Literal["claimed", "begun", "handled", "sent", "committed", "step done", "step recorded", "sleep recorded"]

class Drained(NamedTuple):
    done: int
    retried: int
    dead: int
    crashed: int

class Kit:  # the pytest fixture `fencepost` gives one: call it with your app
    now: datetime
    store: Store
    def advance(self, span: Span | datetime, /) -> None: ...
    def drain(self, *, until_idle: bool = False, limit: int = 10_000) -> Drained: ...  # until_idle: turns the clock to each next due moment
    async def adrain(self, *, until_idle: bool = False, limit: int = 10_000) -> Drained: ...
    def crash_at(self, point: Point, name: str = "", /, *, times: int = 1) -> AbstractContextManager[None]: ...
    def assert_enqueued(self, target: Job[P, Any] | Workflow[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Message: ...
    def enqueued(self, target: Job[..., Any] | Workflow[..., Any] | str, /) -> list[Message]: ...
    def context(self, *, attempt: int = 1) -> Context: ...

def override(app: App, path: StrPath | None = None, *, now: datetime | None = None) -> AbstractContextManager[Kit]: ...  # path: where your ORM's engine points, else a temporary file
