"""
Ctrl-C in each wait, the interpreter's end in the middle of it, and what is let go of unclosed.

Each is a process of its own. Whoever waits is let go at once, the file is sound, and the same store
goes on.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import fencepost
from harness_processes import finish, heard, start

pytestmark = pytest.mark.usefixtures("no_process_left")

SHARED = """
import asyncio, fencepost, gc, signal, sqlite3, subprocess, threading, time, weakref
from fencepost import App

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
app = App(path)

@app.job
def job(n: int = 0) -> int: return n

@app.workflow
async def flow(run, n: int = 0) -> int: return n

store = app.store
full = app.queue("full", int, max_size=1)
outbox = app.outbox("topic", int, max_size=1)
inbox = app.inbox("address", int, max_size=1)
full.enqueue(1)
outbox.send("d", 1)
inbox.accept("first", 1)
handle = job.enqueue()
run = flow.options(id="run").start()

def held_by_another():
    # Keeps the file's one writer for as long as this process has its standard input.
    program = ("import sqlite3, sys\\n"
               "c = sqlite3.connect(sys.argv[1], isolation_level=None)\\n"
               "c.execute('BEGIN IMMEDIATE')\\nprint('holds', flush=True)\\nsys.stdin.read()")
    pipe = subprocess.PIPE
    other = subprocess.Popen([sys.executable, "-c", program, path], stdin=pipe, stdout=pipe)
    other.stdout.readline()
    return other

def begun():
    with store.transaction(timeout=3600):
        pass

async def in_a_loop(wait):
    await wait()

def asleep(thread):
    # In a call of ours or in an event loop, and the kernel says that it sleeps.
    frame, ours = sys._current_frames().get(thread.ident), False
    while frame is not None:
        ours = ours or any(one in frame.f_code.co_filename for one in ("/fencepost/", "/asyncio/"))
        frame = frame.f_back
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    return ours and "State:\\tS" in status

def say_when_asleep(*threads):
    for thread in threads or (threading.main_thread(),):
        times = 0
        while times < 3:
            times = times + 1 if asleep(thread) else 0
            time.sleep(0.005)
    say("waits")
"""

# Each wait, as it is written.
WAITS = {
    "a claim": "store.queue('q').claim(wait=3600)",
    "room in a queue": "full.enqueue(2, wait=3600)",
    "room for several": "full.enqueue_many([2], wait=3600)",
    "room in an outbox": "outbox.send('d', 2, wait=3600)",
    "room in an inbox": "inbox.accept('second', 2, wait=3600)",
    "a result": "handle.result()",
    "a result in time": "handle.result(timeout=3600)",
    "each status": "list(handle.watch())",
    "a run's result": "run.result()",
    "a run's statuses": "list(run.watch())",
    "an event loop's claim": "asyncio.run(store.queue('q').aio.claim(wait=3600))",
    "an event loop's room": "asyncio.run(full.aio.enqueue(2, wait=3600))",
    "an event loop's result": "asyncio.run(in_a_loop(handle.aio.result))",
    "an event loop's run": "asyncio.run(in_a_loop(run.aio.result))",
}
# Those for the file's one writer, which another process holds.
TURNS = {
    "a transaction": "begun()",
    "an enqueue": "job.enqueue()",
    "a signal": "run.signal('s', 1)",
    "a start": "flow.start()",
    "a send": "inbox.accept('third', 2)",
    "an event loop's enqueue": "asyncio.run(in_a_loop(job.aio.enqueue))",
    "an event loop's transaction": "asyncio.run(store.aio.transact(lambda tx: None))",
}
SOUND = """
assert store.check(full=True) == []
assert [store.queue("full").size(), handle.status().state] == [1, "pending"]
store.queue("after").enqueue(1)
store.close()
say("sound")
"""

INTERRUPTED = """
other = {other}
threading.Thread(target=say_when_asleep, daemon=True).start()
try:
    {wait}
except KeyboardInterrupt:
    say("interrupted")
if other is not None:
    other.communicate()
"""


@pytest.mark.parametrize("name", [*WAITS, *TURNS])
def test_ctrl_c_ends_each_wait(path: Path, name: str) -> None:
    """The interrupt comes out of the call, nothing is written, and the store goes on."""
    other = "None" if name in WAITS else "held_by_another()"
    program = INTERRUPTED.format(other=other, wait={**WAITS, **TURNS}[name])
    process = start(SHARED + program + SOUND, path)
    assert heard(process) == "waits"
    process.send_signal(signal.SIGINT)
    assert heard(process) == "interrupted"
    assert finish(process) == ["sound"]


STOPPING = """
started = threading.Event()

@app.job
def slow() -> None:
    started.set()
    time.sleep(0.5)

handle = slow.enqueue()
worker = app.worker(threads=1)
worker.start()
started.wait()
threading.Thread(target=say_when_asleep, daemon=True).start()
try:
    worker.stop(3600)
except KeyboardInterrupt:
    say("interrupted")
worker.stop()
assert handle.status().state == "done"
assert store.check(full=True) == []
store.close()
say("sound")
"""


def test_ctrl_c_ends_the_wait_for_a_workers_end(path: Path) -> None:
    """And the worker can be stopped once more, in which what it ran comes to its end."""
    process = start(SHARED + STOPPING, path)
    assert heard(process) == "waits"
    process.send_signal(signal.SIGINT)
    assert heard(process) == "interrupted"
    assert finish(process) == ["sound"]


ENDS = """
other = {other}
def wait():
    {wait}

threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
say_when_asleep(*threads)
say("over")
if other is not None:
    other.stdin.close()
"""


@pytest.mark.parametrize("name", [name for name in {**WAITS, **TURNS} if "loop" not in name])
def test_the_interpreter_ends_beside_threads_that_wait_in_c(path: Path, name: str) -> None:
    """With the exit code 0, without a word, and what was there is there."""
    other = "None" if name in WAITS else "held_by_another()"
    process = start(SHARED + ENDS.format(other=other, wait={**WAITS, **TURNS}[name]), path)
    assert finish(process) == ["waits", "over"]
    with fencepost.open(path) as store:
        assert store.check(full=True) == []
        assert store.queue("full").size() == 1


DROPPED = """
import faulthandler
faulthandler.enable()

class Ring:
    # A ring, so that whoever collects garbage next ends what hangs on it.
    def __init__(self, *held):
        self.held, self.itself = held, self

def abandoned(n):
    own = fencepost.open(path, durability="normal")
    queue = own.queue("q")
    queue.enqueue(n)
    waiter = threading.Thread(target=queue.claim, kwargs={"wait": 0.02}, daemon=True)
    waiter.start()
    begun = own.transaction()
    claims = queue.claim(limit=1)
    gone.append(weakref.ref(own))
    return Ring(own, queue, claims, begun), waiter

def churn(n):
    for i in range(8):
        ring, waiter = abandoned(n * 100 + i)
        if i % 2:
            waiter.join()
        del ring, waiter
        if i % 3 == 0:
            gc.collect()

gone = []
threads = [threading.Thread(target=churn, args=(n,)) for n in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
while any(ref() is not None for ref in gone):
    gc.collect()
assert store.check(full=True) == []
assert store.queue("q").size() == 48
say("sound")
"""


def test_what_nobody_closed_is_let_go_by_whichever_thread_collects_it(path: Path) -> None:
    """Stores, claims and transactions in rings, while other threads still wait on the same file."""
    assert finish(start(SHARED + DROPPED, path)) == ["sound"]


LEFT_OPEN = """
def left():
    with store.transaction() as tx:
        tx.execute("CREATE TABLE own (n)")
        tx.execute("INSERT INTO own VALUES (1)")
        job.options(tx=tx).enqueue()
        say("open")
        threading.Event().wait()

threading.Thread(target=left, daemon=True).start()
"""


def test_the_interpreter_ends_inside_a_transaction_of_another_thread(path: Path) -> None:
    """It is as if it had never begun."""
    process = start(SHARED + LEFT_OPEN + "time.sleep(0.05)\n", path)
    assert finish(process) == ["open"]
    with fencepost.open(path) as store:
        assert store.check(full=True) == []
        with store.transaction() as tx:
            assert tx.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'own'") == [(0,)]
