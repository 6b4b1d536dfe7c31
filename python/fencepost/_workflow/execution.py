"""One pass from its beginning to its outcome: what the workflow's function did, weighed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from fencepost._workflow import outcomes
from fencepost._workflow.outcomes import (
    Changed,
    Completed,
    Failed,
    Fenced,
    Lost,
    Outcome,
    Parked,
    Stopped,
    Suspended,
    Suspension,
    Swallowed,
    Withdrawn,
)
from fencepost._workflow.passes import Pass
from fencepost.errors import PayloadError, PermanentError

__all__ = ["execute"]


async def execute(p: Pass, body: Coroutine[Any, Any, Any]) -> Outcome:
    """
    Run the workflow's function, and let what is under way end. What is left to be recorded stays in
    `p.pending`, to go with the outcome.
    """
    error: BaseException | None = None
    result: Any = None
    try:
        with p.tasks.begun():
            result = await body
    except BaseException as raised:
        error = raised
    p.over = True
    cut: Outcome | None = None
    if isinstance(error, asyncio.CancelledError):
        cut = await _cut(p)
    try:
        await p.tasks.effects_end()
        await p.settled()
    except asyncio.CancelledError:
        p.tasks.cancel_effects()
        cut = Stopped(withdrawn=p.withdrawn)
    if p.broken is not None:
        return Lost() if isinstance(p.broken, Fenced) else Failed(p.broken)
    if cut is not None:
        return cut
    if p.changed is not None:
        return Parked(str(p.changed))
    return _returned(p, result) if error is None else _raised(p, error)


async def _cut(p: Pass) -> Outcome | None:
    """Why the pass was cancelled; None: by itself."""
    reason = await p.ledger.reason()
    if reason == "withdrawn":
        p.withdrawn = True
        return Stopped(withdrawn=True)
    if reason is None:
        return None
    p.tasks.cancel_effects()
    return Lost() if reason == "lost" else Stopped(withdrawn=False)


def _returned(p: Pass, result: object) -> Outcome:
    if p.waits:
        names = ", ".join(sorted(p.waits))
        return Failed(
            Swallowed(
                f"the workflow returned although it had to wait for {names}: something caught what"
                " was to end its pass, which a bare `except:` or `except BaseException` does"
            )
        )
    missing = p.history.missing()
    if missing is not None:
        return Parked(
            f"the code has changed: {missing.key!r} is recorded, and the code returned without"
            " asking for it; deploy code that fits, guard the change with run.patched(), or fork"
            " the run"
        )
    try:
        body = None if result is None else p.codec.encode(result)
    except PayloadError as error:
        return Failed(PermanentError(str(error), code="unencodable"))
    p.confirm_all()
    return Completed(body)


def _raised(p: Pass, error: BaseException) -> Outcome:
    found = outcomes.weigh(error)
    if isinstance(found, Fenced):
        return Lost()
    if isinstance(found, Changed):
        return Parked(str(found))
    if isinstance(found, Withdrawn):
        return Stopped(withdrawn=True)
    if not isinstance(found, Suspension):
        return Failed(found)
    if not p.waits:
        return Failed(TypeError("a suspension was raised by hand"))
    p.confirm_all()
    moments = [wait.due_us for wait in p.waits.values() if wait.due_us is not None]
    asleep = not any(wait.others for wait in p.waits.values())
    return Suspended(min(moments, default=None), tuple(sorted(p.waits)), asleep)
