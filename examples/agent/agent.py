"""
A local AI agent that survives being killed: steps, an approval, a fan-out of twenty, cancellation.

    python examples/agent/agent.py start "sort my photos"      prints the id of the run
    python examples/agent/agent.py work                        until Ctrl-C; kill it at any time
    python examples/agent/agent.py approve ID | refuse ID | cancel ID
    python examples/agent/agent.py show ID                     what it has done so far

The model is a stand-in, a function: put your own in its place. What it said is recorded, so
no call of it is ever paid for twice, and the agent goes on where it was, days later or on another
version of this file. `fencepost --database agent.db workflow show ID` draws the same.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import fencepost

app = fencepost.App("agent.db")
CALLS = Path("calls.txt")  # what the model was asked, a line each
TASKS = 20
PATIENCE = fencepost.Backoff(base=0.2, cap=5)


@dataclass
class Plan:
    goal: str
    tasks: list[str]


@dataclass
class Report:
    goal: str
    findings: list[str]
    summary: str


def note(prompt: str) -> None:
    with CALLS.open("a", encoding="utf-8") as calls:
        calls.write(f"{prompt}\n")


async def model(prompt: str) -> str:
    """The stand-in for a model: as slow, and as unreliable, as you like."""
    note(prompt)
    await asyncio.sleep(0.2)
    return f"about {prompt}"


async def plan(goal: str) -> Plan:
    thought = await model(f"plan: {goal}")
    return Plan(goal, [f"{thought}, part {n}" for n in range(TASKS)])


def publish(tx: fencepost.Transaction, report: Report) -> int:
    """In the file, in the same commit as its record: it is there once, whatever dies."""
    tx.execute("CREATE TABLE IF NOT EXISTS report (goal TEXT, summary TEXT)")
    row = (report.goal, report.summary)
    return tx.execute("INSERT INTO report VALUES (?, ?)", row).rowcount


@app.workflow(max_attempts=10)
async def agent(run: fencepost.Run, goal: str) -> Report:
    patient = run.options(max_attempts=4, backoff=PATIENCE, timeout=60)
    plan_ = await patient.step("plan", plan, goal)
    if not await run.wait("approval", bool, timeout=7 * 86_400):
        raise fencepost.PermanentError("the plan was refused")
    findings = await run.gather(
        *(patient.step(f"task {n}", model, task) for n, task in enumerate(plan_.tasks))
    )
    summary = await patient.step("summary", model, f"summary of {len(findings)} findings")
    report = Report(goal, findings, summary)
    await run.transact("publish", publish, report)
    return report


def show(id: str) -> None:
    handle = agent.handle(id)
    status = handle.status()
    print(status.state, *status.waiting_for)
    for step in handle.steps():
        took = (
            "" if step.started is None else f" in {(step.at - step.started).total_seconds():.2f} s"
        )
        print(f"  {step.kind} {step.name}{took}")


def main(command: str, argument: str = "") -> None:
    if command == "start":
        print(agent.start(argument).id)
    elif command == "work":
        app.run()
    elif command in ("approve", "refuse"):
        print(agent.handle(argument).signal("approval", command == "approve"))
    elif command == "cancel":
        print(agent.handle(argument).cancel())
    elif command == "show":
        show(argument)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:3])
