"""
The LangGraph checkpointer: LangGraph's own conformance suite, graphs that are interrupted, killed
and taken up again, and what ours promises beyond.

`make compat` installs LangGraph into an environment of its own and runs this there.
"""

from __future__ import annotations

import asyncio
import operator
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest

import fencepost

pytest.importorskip("langgraph.checkpoint.base", reason="LangGraph is not installed: make compat")
pytest.importorskip("langgraph.graph", reason="LangGraph is not installed: make compat")
pytest.importorskip("langgraph.checkpoint.conformance", reason="its suite is not: make compat")

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from fencepost.compat.langgraph import FencepostSaver
from harness_pages import run_block


@pytest.fixture
def saver(path: Path) -> Iterator[FencepostSaver]:
    with fencepost.open(path) as store:
        yield FencepostSaver(store)


def config(thread: str, **more: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **more}}


def put(saver: FencepostSaver, thread: str, *, after: Any = None, **metadata: Any) -> Any:
    where = config(thread) if after is None else after
    return saver.put(where, empty_checkpoint(), metadata, {})


async def test_langgraphs_own_suite_finds_nothing(tmp_path: Path) -> None:
    """Every capability that it knows, the optional ones included."""

    @checkpointer_test(name="FencepostSaver")  # type: ignore[untyped-decorator]
    async def ours() -> AsyncIterator[FencepostSaver]:
        with fencepost.open(tmp_path / f"{uuid4()}.db") as store:
            yield FencepostSaver(store)

    report = await validate(ours)
    failed = {name: one.failures for name, one in report.results.items() if one.passed is not True}
    assert failed == {}
    assert report.passed_all()


class State(TypedDict):
    count: int


def graph(saver: FencepostSaver) -> Any:
    """Counts up twice; between both somebody has to say by how much."""

    def first(state: State) -> State:
        return {"count": state["count"] + 1}

    def ask(state: State) -> State:
        return {"count": state["count"] + interrupt("by how much?")}

    builder = StateGraph(State)
    builder.add_node("first", first)
    builder.add_node("ask", ask)
    builder.add_edge(START, "first")
    builder.add_edge("first", "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


def test_a_graph_goes_on_where_another_process_left_it(saver: FencepostSaver, path: Path) -> None:
    """Interrupted here, answered there, read here again."""
    one = graph(saver)
    one.invoke({"count": 1}, config("t"))
    assert one.get_state(config("t")).next == ("ask",)
    program = (
        "import sys, fencepost; sys.path.insert(0, sys.argv[2])\n"
        "from test_langgraph import *\n"
        "with fencepost.open(sys.argv[1]) as store:\n"
        "    print(graph(FencepostSaver(store)).invoke(Command(resume=40), config('t'))['count'])\n"
    )
    folder = str(Path(__file__).parent)
    command = [sys.executable, "-c", program, str(path), folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "42\n"
    assert one.get_state(config("t")).values == {"count": 42}
    assert one.get_state(config("t")).next == ()


def test_time_travel_branches_from_an_earlier_checkpoint(saver: FencepostSaver) -> None:
    """Both branches stay, each with its own answer."""
    one = graph(saver)
    one.invoke({"count": 1}, config("t"))
    history = one.get_state_history(config("t"))
    before = next(state.config for state in history if state.next == ("first",))
    assert one.invoke(Command(resume=1), config("t")) == {"count": 3}
    one.invoke(None, before)
    assert one.invoke(Command(resume=10), config("t")) == {"count": 12}
    states = [state.values for state in one.get_state_history(config("t"))]
    assert states.count({"count": 2}) == 2
    assert {"count": 3} in states


async def test_coroutines_share_the_file(saver: FencepostSaver) -> None:
    """Many threads of one graph at once, each its own."""
    one = graph(saver)

    async def run(number: int) -> int:
        await one.ainvoke({"count": number}, config(f"t{number}"))
        found = await one.ainvoke(Command(resume=number), config(f"t{number}"))
        return int(found["count"])

    assert await asyncio.gather(*map(run, range(20))) == [2 * n + 1 for n in range(20)]
    threads = {found.config["configurable"]["thread_id"] async for found in saver.alist(None)}
    assert threads == {f"t{number}" for number in range(20)}


PUTS_FOR_EVER = """
import sys, fencepost
from langgraph.checkpoint.base import empty_checkpoint
from fencepost.compat.langgraph import FencepostSaver
with fencepost.open(sys.argv[1]) as store:
    saver = FencepostSaver(store)
    after = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    while True:
        after = saver.put(after, empty_checkpoint(), {"step": 1}, {})
        saver.put_writes(after, [("a", 1), ("b", 2)], "task")
        print(after["configurable"]["checkpoint_id"], flush=True)
"""


def test_a_checkpoint_that_was_told_outlives_its_writer(saver: FencepostSaver, path: Path) -> None:
    """Killed among puts: each that returned is there, whole, with what was written beside it."""
    command = [sys.executable, "-c", PUTS_FOR_EVER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline().strip() for _ in range(30)]
        writer.send_signal(signal.SIGKILL)
        told += [line.strip() for line in writer.stdout if line.endswith("\n")]
    found = {one.config["configurable"]["checkpoint_id"]: one for one in saver.list(config("t"))}
    for one in told:
        assert [write[1:] for write in found[one].pending_writes] == [("a", 1), ("b", 2)]
    assert len(found) - len(told) in (0, 1)


def test_writes_come_in_the_order_of_their_tasks_paths(saver: FencepostSaver) -> None:
    """Then of tasks, then as each wrote them: ten and more of them, too."""
    at = put(saver, "t")
    saver.put_writes(at, [("ch", number) for number in range(12)], "b", "~2")
    saver.put_writes(at, [("ch", "first")], "z", "~1")
    saver.put_writes(at, [("ch", "none")], "y")
    found = saver.get_tuple(at)
    assert found is not None
    assert [write[2] for write in found.pending_writes or ()] == ["none", "first", *range(12)]


def test_a_task_that_runs_again_keeps_what_it_wrote_first(saver: FencepostSaver) -> None:
    """But its error is the last one."""
    at = put(saver, "t")
    for value in ("first", "second"):
        saver.put_writes(at, [("ch", value)], "task")
        saver.put_writes(at, [("__error__", value)], "task")
    found = saver.get_tuple(at)
    assert found is not None
    assert sorted(write[1:] for write in found.pending_writes or ()) == [
        ("__error__", "second"),
        ("ch", "first"),
    ]


@pytest.mark.parametrize("name", ["a/b", "a!b", "%21", 'quo"te', "ä|b:c", "langgraph:", " "])
def test_any_name_is_a_thread_and_a_namespace(saver: FencepostSaver, name: str) -> None:
    """None is taken for a part of another one."""
    for thread, namespace in ((name, ""), (name, name), ("a", name)):
        saver.put(config(thread, checkpoint_ns=namespace), empty_checkpoint(), {"step": 1}, {})
    assert len([*saver.list({"configurable": {"thread_id": name}})]) == 2
    assert len([*saver.list(config(name))]) == 1
    found = next(saver.list(config("a", checkpoint_ns=name)))
    assert found.config["configurable"]["checkpoint_ns"] == name
    saver.delete_thread(name)
    assert len([*saver.list(None)]) == 1


def test_nothing_is_pickled(saver: FencepostSaver) -> None:
    """What its serializer does not know is refused, and then nothing is in the file."""
    values = empty_checkpoint()
    values["channel_values"] = {"a": object()}
    with pytest.raises(TypeError):
        saver.put(config("t"), values, {"step": 1}, {})
    assert saver.get_tuple(config("t")) is None


def test_prune_is_whole_though_ids_are_told_apart_late(saver: FencepostSaver) -> None:
    """An id that begins like another one is not taken with it."""
    for name in ("a", "a-b", "b"):
        checkpoint = {**empty_checkpoint(), "id": name}
        at = saver.put(config("t"), checkpoint, {"step": 1}, {})
        saver.put_writes(at, [("ch", name)], "task")
    saver.delete_for_runs(["nobody"])
    saver.prune(["t"])
    (left,) = saver.list(config("t"))
    assert left.config["configurable"]["checkpoint_id"] == "b"
    assert [write[2] for write in left.pending_writes or ()] == ["b"]
    with pytest.raises(fencepost.InvalidArgument, match="keep_latest"):
        saver.prune(["t"], strategy="all")


class Grown(TypedDict):
    said: Annotated[list[str], DeltaChannel(operator.iadd, snapshot_frequency=4)]


def growing(saver: FencepostSaver, *threads: str) -> Any:
    """A graph of which most checkpoints are told by what was written since an older one."""
    builder = StateGraph(Grown)
    builder.add_node("echo", lambda state: {"said": [f"echo of {len(state['said'])}"]})
    builder.add_edge(START, "echo")
    builder.add_edge("echo", END)
    one = builder.compile(checkpointer=saver)
    for thread in threads:
        for turn in range(5):
            one.invoke(
                {"said": [str(turn)]}, {**config(thread), "metadata": {"run_id": f"turn {turn}"}}
            )
    return one


def test_what_a_checkpoint_is_rebuilt_from_stays_with_it(saver: FencepostSaver) -> None:
    """Pruned, copied, without the runs before it: it says what it said; and the rest is gone."""
    one = growing(saver, "t", "u")
    said = one.get_state(config("t")).values
    assert len(said["said"]) == 10
    saver.prune(["t"])
    assert one.get_state(config("t")).values == said
    assert 1 < len([*saver.list(config("t"))]) < len([*saver.list(config("u"))])
    saver.copy_thread("u", "v")
    before = len([*saver.list(config("u"))])
    saver.delete_for_runs(["turn 0", "turn 1", "turn 2", "turn 3"])
    assert 3 < len([*saver.list(config("u"))]) < before
    assert one.get_state(config("u")).values == said
    assert one.get_state(config("v")).values == said
    one.invoke({"said": ["once more"]}, config("t"))
    assert len(one.get_state(config("t")).values["said"]) == 12


def test_within_a_transaction_of_this_store_it_says_so(saver: FencepostSaver) -> None:
    """It would wait for itself, or be answered without its own writes."""
    with (
        saver.store.transaction(),
        pytest.raises(fencepost.InvalidArgument, match="transaction of this store open"),
    ):
        saver.get_tuple(config("t"))


def test_the_program_of_the_guide_runs(tmp_path: Path) -> None:
    run_block("compat.md", "graph.py", tmp_path)
