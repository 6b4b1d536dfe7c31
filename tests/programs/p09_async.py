"""5,000 coroutines enqueue and await; some are cancelled."""

from __future__ import annotations

import asyncio
import random

import fencepost

app = fencepost.App("many.db")


@app.job(queue="square", max_attempts=3)
async def square(n: int) -> int:
    await asyncio.sleep(0)
    return n * n


async def one(n: int) -> int:
    job = square.options(key=f"square:{n}")
    handle = await job.aio.enqueue(n)
    try:
        return await handle.result(timeout=30)
    except asyncio.CancelledError:
        await asyncio.shield(handle.cancel())  # the job, too
        raise


async def settled(n: int) -> str:
    """A cancelled enqueue: was it written? The key answers."""
    task = asyncio.create_task(square.options(key=f"k:{n}").aio.enqueue(n))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        again = await square.options(key=f"k:{n}").aio.enqueue(n)
        return "was not written" if again.created else "was written"
    return "done"


async def bulk() -> list[int]:
    handles = await square.aio.enqueue_many(
        square.options(key=f"b:{n}").call(n) for n in range(5000)
    )
    return await asyncio.gather(*(h.result() for h in handles))


async def main() -> None:
    async with app.worker(threads=4):
        tasks = [asyncio.create_task(one(n)) for n in range(5000)]
        await asyncio.sleep(0.05)
        for task in random.sample(tasks, 500):
            task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        print(
            "done",
            sum(isinstance(a, int) for a in answers),
            "cancelled",
            sum(isinstance(a, asyncio.CancelledError) for a in answers),
        )
        print(await settled(1), sum(await bulk()))
        try:
            await square.options(key="square:1").aio.enqueue(2)
        except fencepost.Conflict as conflict:
            print("another message owns the key:", conflict.id)


async def by_hand() -> None:
    async with fencepost.open("many.db").aio as store:
        queue = store.queue("events", dict[str, int])
        await asyncio.gather(*(queue.enqueue({"n": n}) for n in range(5000)))
        for claim in await queue.claim(100, lease=30, wait=1.0):
            print(claim.payload["n"], claim.token)
            await claim.ack()


if __name__ == "__main__":
    asyncio.run(main())
