"""The operations of outboxes, inboxes, limits, schedules and operators, as cases."""

from __future__ import annotations

from array import array

import harness_scenes as scene
from fencepost._binding.calls import Core
from fencepost._binding.guest import Guest
from fencepost._binding.pack import Fired
from harness_case import DONE, Context, case
from harness_core import START, ack, lib, put, settle, take
from harness_core import tx as transaction
from harness_scenes import LATER, MONTH_LATER, say

# ---- outbox --------------------------------------------------------------------------------------


@case(scene.sending)
def begin(core: Core, held: Context) -> None:
    assert settle(core, say(held[0], lib.FP_BEGIN, -1), say(held[1], lib.FP_BEGIN, -1)) == DONE * 2


@case(scene.sending)
def ack_what_was_begun(core: Core, held: Context) -> None:
    assert ack(core, *held) == DONE * 2


@case(scene.sending)
def put_aside_as_unknown(core: Core, held: Context) -> None:
    assert settle(core, say(held[0], lib.FP_UNKNOWN)) == DONE


@case(scene.sender_lost)
def claim_that_puts_aside_as_unknown(core: Core, held: Context) -> None:
    assert take(core, held[0].queue, 5) == []


@case(scene.unknown)
def retry_what_is_unknown(core: Core, held: Context) -> None:
    assert core.replay(array("q", [held.id, 1]), 0, 0, apply=True) == DONE


@case(scene.unknown)
def confirm_what_is_unknown(core: Core, held: Context) -> None:
    assert core.confirm(array("q", [held.id, 1]), b"seen there") == DONE


# ---- inbox ---------------------------------------------------------------------------------------


@case(scene.inbox)
def accept(core: Core, queue: Context) -> None:
    """One that is new, and one that came before: both are answered in one commit."""
    columns = {"keys": [b"42", b"43"], "life": lib.FP_LIFE_LASTING, "digests": b"d" * 64}
    assert len(set(put(core, queue, b"{}", b"{}", headers=[None, b"{}"], **columns))) == 2


@case(scene.inbox_held)
def ack_what_came_in(core: Core, held: Context) -> None:
    """With rows of the handler's, and what follows from it."""
    with transaction(core) as begun:
        with Guest(begun, "INSERT INTO mine VALUES (7)") as guest:
            guest.run(1, b"")
        put(core, held.queue, b"follows", tx=begun)
        assert ack(core, held, tx=begun) == DONE


@case(scene.inbox_late)
def end_what_came_in_too_late(core: Core, context: Context) -> None:
    """Beside an end that is in time, which is all that is written."""
    assert ack(core, *context) == [lib.FP_LOST, lib.FP_DONE]


# ---- operators -----------------------------------------------------------------------------------


@case(scene.dead)
def replay_with_a_note(core: Core, ids: Context) -> None:
    assert core.replay(array("q", [ids[0], 1]), 0, 0, note=b"mended", apply=True) == DONE


@case(scene.dead)
def purge_the_dead(core: Core, ids: Context) -> None:
    core.hand(MONTH_LATER)
    assert core.purge(0, lib.FP_STATE_DEAD, MONTH_LATER, 1, apply=True) == 1


# ---- limits and schedules ------------------------------------------------------------------------


@case(scene.full)
def limit_a_queue(core: Core, queue: Context) -> None:
    limits = {"max_size": 5, "concurrency": 1, "rate_milli": 500}
    assert scene.jobs(core, **limits) == queue


@case(scene.some)
def hold_a_queue(core: Core, queue: Context) -> None:
    """Nobody is handed anything until then."""
    assert scene.jobs(core, held_until_us=LATER) == queue


@case(scene.fired)
def fire_a_schedule(core: Core, kind: Context) -> None:
    """What is due, and how far it has come, in one commit."""
    with transaction(core) as begun:
        assert core.schedule_find(begun, b"clean daily") == (START, 0)
        queue = core.queue_find(begun, b"jobs")[0]
        (id_,) = put(core, queue, b"{}", kind=kind, tx=begun)
        fired = Fired(b"clean daily", b"0 2 * * *", b"UTC", kind, 0, LATER, id_)
        core.schedule_keep(begun, fired)
