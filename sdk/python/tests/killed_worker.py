"""A worker that is killed again and again. Every effect writes to the witness file when it begins and when it ends."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import goldseam as gs

WITNESS = os.environ.get("WITNESS", os.devnull)


def witness(what: str, run: str, path: str) -> None:
    """Appends a line in one write, which no kill can cut."""
    descriptor = os.open(WITNESS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{what} {run} {path} {time.time_ns() // 1_000_000}\n".encode())
    finally:
        os.close(descriptor)


@gs.step
async def quick(number: int) -> int:
    here = gs.attempt()
    witness("begin", here.run, here.path)
    await asyncio.sleep(0.004)
    witness("end", here.run, here.path)
    return number


@gs.step
def threaded(number: int) -> int:
    here = gs.attempt()
    witness("begin", here.run, here.path)
    time.sleep(0.008)
    witness("end", here.run, here.path)
    return number


async def part(name: str) -> int:
    return int(await quick.key(name)(1)) + int(await threaded.key(name)(2))


async def body(number: int) -> int:
    total = sum([await quick(at) for at in range(3)])
    total += sum(await asyncio.gather(part("left"), part("right")))
    await gs.sleep("nap", 0.01)
    return total + int(await threaded(number))


@gs.workflow
async def job(number: int) -> int:
    return await body(number)


@gs.workflow(name="job", version=2)
async def job_2(number: int) -> int:
    """The next release of the job, with one more step."""
    return int(await quick.key("new")(1000)) + await body(number)


async def main(url: str, versions: str) -> None:
    workflows = [workflow for workflow in (job, job_2) if str(workflow.version) in versions.split(",")]
    async with gs.open(url, workflows=workflows) as engine:
        await engine.serve()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
