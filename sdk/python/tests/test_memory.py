"""Memory stays flat over many runs. ``GOLDSEAM_MEMORY_RUNS`` sets their number."""

from __future__ import annotations

import asyncio
import gc
import os

import goldseam as gs

RUNS = int(os.environ.get("GOLDSEAM_MEMORY_RUNS", "900"))


def resident() -> int:
    """The resident memory of this process, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_is_flat_over_many_runs(sqlite_url: str) -> None:
    @gs.step
    async def work(number: int) -> str:
        return "x" * 1000

    @gs.workflow
    async def job(number: int) -> int:
        await asyncio.gather(work(1), work(2))
        await gs.sleep("nap", 0.0)
        return number

    async def batch(engine: gs.Engine, count: int) -> None:
        for begin in range(0, count, 50):
            runs = await asyncio.gather(*(engine.start(job, at) for at in range(begin, begin + 50)))
            await asyncio.gather(*(run.result(120) for run in runs))

    async def main() -> None:
        async with gs.open(f"{sqlite_url}?durability=process", workflows=[job]) as engine:
            await batch(engine, RUNS // 3)
            gc.collect()
            before, tasks = resident(), len(asyncio.all_tasks())
            await batch(engine, RUNS - RUNS // 3)
            gc.collect()
            grown = resident() - before
            print(f"runs {RUNS}, grown by {grown / 1e6:.1f} MB from {before / 1e6:.1f} MB")
            assert len(asyncio.all_tasks()) <= tasks + 1
            assert engine.worker is not None and not engine.worker.executions and not engine.worker._held
            # A leak of a run's history, about 10 kB, would show.
            assert grown < max(16e6, RUNS * 2000)

    asyncio.run(main())
