"""
Every operation of the core once, as a case: what must be there first, and the operation itself.

The ladder of faults, the kills and the plans all climb the same list. A case is deterministic: the
hand of the clock stands still, and nothing is drawn at random, so two runs leave the same rows.
"""

from __future__ import annotations

from array import array

import harness_cases_boxes as boxes
import harness_cases_flow as flow
import harness_scenes as scene
from fencepost._binding.calls import Core
from fencepost._binding.guest import Guest
from fencepost._binding.pack import Put, Take
from fencepost._binding.requests import Enqueuing
from harness_case import CASES, DONE, Case, Context, case
from harness_core import Verdict, ack, define, lib, look_after, put, settle, take
from harness_core import tx as transaction
from harness_scenes import LEASE, MONTH_LATER, fail, say

__all__ = ["CASES", "DONE", "Case", "Context", "case"]

assert boxes.__doc__  # its cases are among them
assert flow.__doc__  # and so are these


# ---- putting in ----------------------------------------------------------------------------------


@case(scene.jobs)
def enqueue_one(core: Core, queue: Context) -> None:
    assert len(put(core, queue, b"a")) == 1


@case(scene.bulk)
def enqueue_many(core: Core, queue: Context) -> None:
    assert len(put(core, queue, *[b"body"] * 5, headers=[b"{}"] * 5, delay_us=5)) == 5


@case(scene.keyed)
def enqueue_with_keys(core: Core, queue: Context) -> None:
    keys = [b"new", b"old", b"newer"]
    ids = put(core, queue, b"n", b"a", b"n", keys=keys, life=lib.FP_LIFE_LASTING)
    assert len(set(ids)) == 3


@case(scene.keyed)
def enqueue_unique(core: Core, queue: Context) -> None:
    assert len(set(put(core, queue, b"u", b"v", keys=[b"live", b"v"], life=2))) == 2


@case(scene.laned)
def enqueue_into_lanes(core: Core, queue: Context) -> None:
    assert len(put(core, queue, b"3", b"4", b"5", lanes=[b"x", b"y", b"y"])) == 3


@case(scene.keyed)
def replace_a_pending_one(core: Core, queue: Context) -> None:
    assert put(core, queue, b"z", keys=[b"old"], life=1, equal=lib.FP_EQUAL_REPLACE)


@case(scene.wakeup)
def re_arm_a_pending_one(core: Core, queue: Context) -> None:
    assert put(core, queue, b"w", keys=[b"run"], life=2)


@case(scene.wakeup_held)
def re_arm_a_leased_one(core: Core, context: Context) -> None:
    queue, held = context
    assert put(core, queue, b"w", keys=[b"run"], life=2) == [held.id]


@case(scene.rearmed_held)
def ack_what_was_re_armed(core: Core, context: Context) -> None:
    assert ack(core, context[1]) == DONE


@case(scene.keyed)
def gather_an_enqueue(core: Core, queue: Context) -> None:
    (how,) = core.gather([Enqueuing(Put(queue, [b"n"], keys=[b"new"], life=1, digests=bytes(32)))])
    if how.error is not None:
        raise how.error


# ---- claiming ------------------------------------------------------------------------------------


@case(scene.some)
def claim_jobs(core: Core, queue: Context) -> None:
    assert [claim.body for claim in take(core, queue, 2)] == [b"a", b"b"]


@case(scene.bulk_some)
def claim_bulk(core: Core, queue: Context) -> None:
    assert [claim.body for claim in take(core, queue, 2)] == [b"a", b"b"]


@case(scene.lapsed)
def claim_what_lapsed(core: Core, queue: Context) -> None:
    (claim,) = take(core, queue)
    assert (claim.body, claim.attempt, claim.lapsed) == (b"a", 2, 1)


@case(scene.limited)
def claim_what_limits_let_go(core: Core, queue: Context) -> None:
    assert [claim.body for claim in take(core, queue, 5)] == [b"a", b"b"]


@case(scene.occupied)
def take_over_where_no_place_is_free(core: Core, queue: Context) -> None:
    (claim,) = take(core, queue, 5)
    assert (claim.body, claim.attempt, claim.lapsed) == (b"a", 2, 1)


@case(scene.used_up)
def claim_that_buries(core: Core, queue: Context) -> None:
    assert [claim.body for claim in take(core, queue, 5)] == [b"healthy"]


@case(scene.orphaned)
def take_over_a_slice(core: Core, queue: Context) -> None:
    assert look_after(core)


@case(scene.one_orphaned)
def take_over_the_last(core: Core, queue: Context) -> None:
    assert look_after(core)  # and the worker's row goes with it


@case(scene.one_held)
def settle_and_claim(core: Core, held: Context) -> None:
    answers, found = core.step([Verdict(held.id, held.token, lib.FP_ACK)], Take([held.queue], 2))
    assert (answers, found.rows) == (DONE, 2)


# ---- settling ------------------------------------------------------------------------------------


@case(scene.one_held)
def renew(core: Core, held: Context) -> None:
    assert settle(core, say(held, lib.FP_RENEW, 2 * LEASE)) == DONE


@case(scene.bulk_held)
def renew_bulk(core: Core, held: Context) -> None:
    assert settle(core, *(say(claim, lib.FP_RENEW, -1) for claim in held)) == DONE * 2


@case(scene.one_held)
def ack_kept(core: Core, held: Context) -> None:
    assert ack(core, held) == DONE


@case(scene.bulk_held)
def ack_not_kept(core: Core, held: Context) -> None:
    assert ack(core, *held) == DONE * 2


@case(scene.one_held)
def ack_with_a_result(core: Core, held: Context) -> None:
    assert settle(core, Verdict(held.id, held.token, lib.FP_ACK, result=b"x" * 3000)) == DONE


@case(scene.laned_held)
def ack_that_lets_the_lane_go_on(core: Core, held: Context) -> None:
    assert ack(core, held) == DONE


@case(scene.one_held)
def retry(core: Core, held: Context) -> None:
    assert settle(core, say(held, lib.FP_RETRY, -1)) == DONE


@case(scene.bulk_held)
def retry_bulk(core: Core, held: Context) -> None:
    assert settle(core, *(say(claim, lib.FP_RETRY, 5) for claim in held)) == DONE * 2


@case(scene.laned_held)
def retry_into_dead(core: Core, held: Context) -> None:
    assert settle(core, say(held, lib.FP_RETRY)) == [lib.FP_DEAD]


@case(scene.one_held)
def release(core: Core, held: Context) -> None:
    assert settle(core, say(held, lib.FP_RELEASE)) == DONE


@case(scene.one_held)
def put_off(core: Core, held: Context) -> None:
    assert settle(core, say(held, lib.FP_LATER, 5)) == DONE


@case(scene.laned_held)
def fail_and_halt_the_lane(core: Core, held: Context) -> None:
    assert settle(core, fail(held)) == DONE


@case(scene.one_held)
def give_up_by_cancel(core: Core, held: Context) -> None:
    assert settle(core, say(held, lib.FP_CANCEL)) == DONE


@case(scene.one_held)
def settle_what_was_lost(core: Core, held: Context) -> None:
    stale = held._replace(token=held.token - 1)
    assert settle(core, fail(stale), fail(held)) == [lib.FP_LOST, lib.FP_DONE]


@case(scene.all_sorts_held)
def ack_a_batch_of_all_sorts(core: Core, held: Context) -> None:
    assert ack(core, *held, held[0]) == DONE * 5 + [lib.FP_ALREADY]


@case(scene.all_sorts_held)
def settle_a_batch_in_every_way(core: Core, held: Context) -> None:
    verbs = (lib.FP_FAIL, lib.FP_RETRY, lib.FP_CANCEL, lib.FP_RENEW, lib.FP_RELEASE)
    said = [say(claim, verb, 5) for claim, verb in zip(held, verbs, strict=True)]
    assert settle(core, *said) == DONE * 5


# ---- by id ---------------------------------------------------------------------------------------


@case(scene.ids_of)
def cancel_pending(core: Core, ids: Context) -> None:
    assert core.cancel(None, ids) == DONE * 2


@case(scene.laned_held)
def cancel_leased(core: Core, held: Context) -> None:
    assert core.cancel(None, [held.id]) == DONE


@case(scene.waiting)
def cancel_waiting(core: Core, id: Context) -> None:
    assert core.cancel(None, [id]) == DONE


@case(scene.dead)
def replay(core: Core, ids: Context) -> None:
    pairs = array("q", [ids[0], -1, ids[1], 1])
    assert core.replay(pairs, 5, 1, apply=True) == DONE * 2


@case(scene.ended)
def purge_done(core: Core, queue: Context) -> None:
    assert core.purge(0, lib.FP_DONE_UNLISTED, MONTH_LATER, 100, apply=True) == 3


@case(scene.ended)
def purge_cancelled(core: Core, queue: Context) -> None:
    assert core.purge(queue, lib.FP_CANCELLED, MONTH_LATER, 100, apply=True) == 1


@case(scene.ended)
def retain(core: Core, queue: Context) -> None:
    assert core.retain(100) == (4, False)


@case(scene.progressed)
def progress(core: Core, id: Context) -> None:
    core.progress(None, id, b"half")


# ---- queues --------------------------------------------------------------------------------------


@case(scene.jobs)
def pause(core: Core, queue: Context) -> None:
    core.queue_pause(None, queue, paused=True)


@case(scene.jobs)
def define_a_queue(core: Core, queue: Context) -> None:
    assert define(core, "further", lib.FP_PROFILE_QUEUE) > queue


@case(scene.laned)
def widen_the_lanes(core: Core, queue: Context) -> None:
    assert scene.jobs(core, lane_width=2) == queue


@case(scene.jobs)
def name_a_kind(core: Core, queue: Context) -> None:
    assert core.kind(None, b"send_mail") > 0


@case(scene.halted)
def release_a_lane(core: Core, queue: Context) -> None:
    assert core.release_lane(queue, b"x")


# ---- shelves -------------------------------------------------------------------------------------


@case(scene.shelf)
def put_on_a_shelf(core: Core, shelf: Context) -> None:
    shelf.put(None, {"b": b"2", "a": b"changed"})


@case(scene.shelf)
def put_anew_on_a_shelf(core: Core, shelf: Context) -> None:
    shelf.put(None, {"b": b"2", "a": b"changed"}, replace=True)


@case(scene.shelf)
def take_off_a_shelf(core: Core, shelf: Context) -> None:
    assert shelf.erase(None, "", "b") == 1


# ---- all of it in one commit ---------------------------------------------------------------------


@case(scene.one_held)
def a_transaction_of_everything(core: Core, held: Context) -> None:
    with transaction(core) as begun:
        for sql in ("CREATE TABLE mine (id INTEGER PRIMARY KEY)", "INSERT INTO mine VALUES (7)"):
            with Guest(begun, sql) as guest:
                guest.run(1, b"")
        assert settle(core, Verdict(held.id, held.token, lib.FP_ACK), tx=begun) == DONE
        put(core, held.queue, b"next", keys=[b"k"], life=1, lanes=[b"x"], tx=begun)
        assert core.cancel(begun, [held.id + 1]) == DONE
        core.queue_pause(begun, held.queue, paused=True)


@case(scene.bulk_held)
def a_transaction_that_goes_back(core: Core, held: Context) -> None:
    with transaction(core) as begun:
        for sql in ("SAVEPOINT a", "ROLLBACK TO a"):
            with Guest(begun, sql) as guest:
                guest.run(1, b"")
            renewed = (say(claim, lib.FP_RENEW, LEASE + 1) for claim in held)
            assert settle(core, *renewed, tx=begun) == DONE * 2
        assert ack(core, held[0], tx=begun) == DONE
