"""What stands in a file of workflows before it is damaged, and what is asked of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from fencepost._binding.calls import Core
from fencepost._binding.codes import FP
from fencepost._binding.flow import End, Flow, Parent, RecordPut, Start
from fencepost._binding.pack import Put
from harness_core import take
from harness_flow import scene

IDS = [b"r%d" % number for number in range(8)]


def furnish_flow(core: Core, jobs: int) -> None:
    """A run in each state, a family, records, an inbox, and a workflow without a run."""
    at = scene(core)
    for id_ in IDS:
        at.start(id_, max_attempts=2)
    held = at.take(len(IDS) - 1)
    ends = [FP.END_DONE, FP.END_FAIL, FP.END_PARK, FP.END_SLEEP, FP.END_WAIT]
    for claim in held:
        at.record(claim, b"step")
        at.record(claim, b"next", None)
    at.start(b"kid", parent=at.parent(held[0]))
    at.start_job(jobs, held[5])
    at.start(b"other kid", parent=at.parent(held[5]))
    for claim, verb in zip(held, ends, strict=False):
        at.end(claim, verb, at_us=claim.due + 5, kind=b"error", text=b"broke", waiting=b"[]")
    at.flow.arrive(None, IDS[5], b"signal:x", b"v")
    at.flow.deliver(None, b"plain", b"v", queue=at.queue, live=False)
    at.flow.claim(b"plain", 10, 10)


def flow_calls(core: Core, jobs: int) -> Iterator[Callable[[], object]]:
    """Everything that can be asked about workflows."""
    flow, queue = Flow(core), 5
    for id_ in [*IDS, b"kid", b"plain", b"new"]:
        yield partial(flow.get, id_)
        yield partial(read, flow, id_)
        yield partial(flow.arrive, None, id_, b"signal:y", b"v")
        yield partial(flow.arrive, None, id_, b"step", b"w", queue=queue, live=False)
        yield partial(flow.append, None, id_, b"v")
        yield partial(flow.claim, id_, 10, 10)
        yield partial(flow.start, None, Start(queue, 1, id_, b"{}"))
        yield partial(flow.fork, None, id_, b"next", Start(queue, 0, b"fork of " + id_))
    for id_ in IDS[::2]:
        yield partial(flow.cancel, None, id_)
        yield partial(flow.resume, None, id_)
    yield partial(flow.delete, None, IDS[5], queue)
    yield partial(flow.delete, None, b"plain", queue)
    yield partial(flow.discard, None, IDS[6])
    for verb in (FP.END_DONE, FP.END_SLEEP, FP.END_WAIT, FP.END_RETRY, FP.END_FAIL, FP.END_PARK):
        yield partial(end_all, core, flow, queue, jobs, verb)
    for state in range(-1, 7):
        yield partial(flow.runs, state, limit=3, text=b"r")
    for state in range(3, 7):
        yield partial(flow.purge, state, 2**53 - 1, 3, apply=True)


def read(flow: Flow, id_: bytes) -> None:
    for _ in flow.records(id_):
        pass


def end_all(core: Core, flow: Flow, queue: int, jobs: int, verb: int) -> None:
    """Takes what is due; records, starts, and ends."""
    for held in take(core, queue, 3, lease_us=5):
        id_ = held.key or b"nobody"
        parent = Parent(id_, held.token, b"again")
        flow.record(None, [RecordPut(id_, held.token, b"more", 0, b"v")])
        flow.start_job(None, Put(jobs, [b"a"]), parent)
        flow.end(None, (), [End(id_, held.token, verb, at_us=5, kind=b"error")])
