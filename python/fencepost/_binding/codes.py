"""The codes of csrc/fencepost.h, as the rooms above speak them."""

from __future__ import annotations

from typing import Final

from fencepost._binding.lib import lib

__all__ = ["FP"]


class FP:
    """The core's constants that other rooms speak in, without their FP_."""

    DONE: Final[int] = lib.FP_DONE
    LOST: Final[int] = lib.FP_LOST
    INVALID: Final[int] = lib.FP_INVALID
    GONE: Final[int] = lib.FP_GONE
    ALREADY: Final[int] = lib.FP_ALREADY
    SUPERSEDED: Final[int] = lib.FP_SUPERSEDED
    NOT_DEAD: Final[int] = lib.FP_NOT_DEAD
    LIVE_KEY: Final[int] = lib.FP_LIVE_KEY
    DEAD: Final[int] = lib.FP_DEAD

    PENDING: Final[int] = lib.FP_PENDING
    LEASED: Final[int] = lib.FP_LEASED
    BEGUN: Final[int] = lib.FP_BEGUN
    DONE_UNLISTED: Final[int] = lib.FP_DONE_UNLISTED
    DONE_LISTED: Final[int] = lib.FP_DONE_LISTED
    STATE_DEAD: Final[int] = lib.FP_STATE_DEAD
    STATE_UNKNOWN: Final[int] = lib.FP_STATE_UNKNOWN
    CANCELLED: Final[int] = lib.FP_CANCELLED
    WAITING: Final[int] = lib.FP_WAITING

    PROFILE_QUEUE: Final[int] = lib.FP_PROFILE_QUEUE
    PROFILE_JOB: Final[int] = lib.FP_PROFILE_JOB
    PROFILE_OUTBOX: Final[int] = lib.FP_PROFILE_OUTBOX
    PROFILE_INBOX: Final[int] = lib.FP_PROFILE_INBOX
    PROFILE_WAKEUP: Final[int] = lib.FP_PROFILE_WAKEUP

    LIFE_NONE: Final[int] = lib.FP_LIFE_NONE
    LIFE_LASTING: Final[int] = lib.FP_LIFE_LASTING
    LIFE_LIVE: Final[int] = lib.FP_LIFE_LIVE

    EQUAL_POLICY: Final[int] = lib.FP_EQUAL_POLICY
    EQUAL_COMPARE: Final[int] = lib.FP_EQUAL_COMPARE
    EQUAL_RETURN: Final[int] = lib.FP_EQUAL_RETURN
    EQUAL_REPLACE: Final[int] = lib.FP_EQUAL_REPLACE
    EQUAL_REARM: Final[int] = lib.FP_EQUAL_REARM

    ACK: Final[int] = lib.FP_ACK
    RETRY: Final[int] = lib.FP_RETRY
    RELEASE: Final[int] = lib.FP_RELEASE
    LATER: Final[int] = lib.FP_LATER
    FAIL: Final[int] = lib.FP_FAIL
    CANCEL: Final[int] = lib.FP_CANCEL
    RENEW: Final[int] = lib.FP_RENEW
    BEGIN: Final[int] = lib.FP_BEGIN
    UNKNOWN: Final[int] = lib.FP_UNKNOWN

    ALONE_LAPSED: Final[int] = lib.FP_ALONE_LAPSED
    ALONE_TRIED: Final[int] = lib.FP_ALONE_TRIED
    ALONE_NEVER: Final[int] = lib.FP_ALONE_NEVER

    REARMED: Final[int] = lib.FP_REARMED

    RUN_ANY: Final[int] = lib.FP_RUN_ANY
    RUN_RUNNING: Final[int] = lib.FP_RUN_RUNNING
    RUN_SLEEPING: Final[int] = lib.FP_RUN_SLEEPING
    RUN_WAITING: Final[int] = lib.FP_RUN_WAITING
    RUN_FAILED: Final[int] = lib.FP_RUN_FAILED
    RUN_PARKED: Final[int] = lib.FP_RUN_PARKED
    RUN_DONE: Final[int] = lib.FP_RUN_DONE
    RUN_CANCELLED: Final[int] = lib.FP_RUN_CANCELLED
    RUN_STATES: Final = ("running", "sleeping", "waiting", "failed", "parked", "done", "cancelled")

    RECORD_STEP: Final[int] = lib.FP_RECORD_STEP
    RECORD_TRANSACT: Final[int] = lib.FP_RECORD_TRANSACT
    RECORD_CHILD: Final[int] = lib.FP_RECORD_CHILD
    RECORD_SLEEP: Final[int] = lib.FP_RECORD_SLEEP
    RECORD_WAIT: Final[int] = lib.FP_RECORD_WAIT
    RECORD_RECEIVE: Final[int] = lib.FP_RECORD_RECEIVE
    RECORD_INBOX: Final[int] = lib.FP_RECORD_INBOX

    END_DONE: Final[int] = lib.FP_END_DONE
    END_SLEEP: Final[int] = lib.FP_END_SLEEP
    END_WAIT: Final[int] = lib.FP_END_WAIT
    END_RETRY: Final[int] = lib.FP_END_RETRY
    END_FAIL: Final[int] = lib.FP_END_FAIL
    END_PARK: Final[int] = lib.FP_END_PARK
    END_RELEASE: Final[int] = lib.FP_END_RELEASE
