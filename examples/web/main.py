"""
A web service on one event loop, with its queue and the queue's worker in the same process:

    uvicorn main:api

A request is answered when its job is on the disk, however many come at once; the worker runs
coroutines on a loop of its own, plain functions on threads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException, Response

import fencepost

jobs = fencepost.App("web.db")


@jobs.job(max_attempts=3, timeout=10)
async def count_words(text: str) -> int:
    return len(text.split())


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with jobs.worker(threads=2):
        yield


api = FastAPI(lifespan=lifespan)


@api.post("/texts", status_code=202)
async def take(
    text: str, response: Response, idempotency_key: Annotated[str, Header()]
) -> dict[str, int]:
    """Durable when it is answered. The same request again is answered with the same job."""
    job = count_words.options(key=idempotency_key)
    try:
        handle = await job.aio.enqueue(text)
    except fencepost.Conflict as conflict:
        raise HTTPException(409, f"job {conflict.id} has this key and another text") from None
    if not handle.created:
        response.status_code = 200
    return {"job": handle.id}


@api.get("/texts/{job}")
async def words(job: int, wait: float = 0) -> dict[str, Any]:
    """How many words there are, waiting for it up to `wait` seconds. It takes no thread."""
    handle = count_words.aio.handle(job)
    try:
        return {"state": "done", "words": await handle.result(timeout=min(wait, 30))}
    except TimeoutError:
        return {"state": (await handle.status()).state}
    except fencepost.Gone:
        raise HTTPException(404) from None


@api.get("/health")
async def health() -> list[str]:
    return await jobs.aio.check()
