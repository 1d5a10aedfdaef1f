"""Steps per second, the latency of a lone step, and the restart with 500 runs in mid-step, beside DBOS.

    python bench.py goldseam sqlite:/tmp/bench.db
    python bench.py dbos sqlite:////tmp/dbos.sqlite
    python bench.py ratios DIR [POSTGRES_URL]      # both, in one run, with ratios

Each measurement prints `NAME=VALUE`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

LONE = int(os.environ.get("BENCH_LONE", "2000"))
RUNS = int(os.environ.get("BENCH_RUNS", "64"))
STEPS = int(os.environ.get("BENCH_STEPS", "100"))
STALLED = int(os.environ.get("BENCH_STALLED", "500"))


def show(name: str, value: float) -> None:
    print(f"{name}={value:.4g}", flush=True)


# ------------------------------------------------------------------------------------------------------ goldseam


def goldseam(url: str, restart: bool) -> None:
    import goldseam as gs

    @gs.step
    async def work(number: int) -> int:
        return number

    @gs.workflow
    async def job(count: int) -> int:
        total = 0
        for number in range(count):
            total += await work(number)
        return total

    @gs.step
    async def stall() -> int:
        if restart:
            await asyncio.sleep(3600)
        return 1

    @gs.workflow
    async def stalled() -> int:
        return await stall()

    async def main() -> None:
        async with gs.open(url, workflows=[job, stalled], slots=1024) as engine:
            if restart:
                runs = [await engine.start(stalled, id=f"stalled-{at}") for at in range(STALLED)]
                while (await engine.list(status="running", limit=1, order=None))["items"] == []:
                    await asyncio.sleep(0.01)
                while engine.worker is None or len(engine.worker.executions) < len(runs):
                    await asyncio.sleep(0.01)
                os.kill(os.getpid(), 9)
            await (await engine.start(job, 50)).result()
            began = time.perf_counter()
            await (await engine.start(job, LONE)).result()
            show("lone_step_us", (time.perf_counter() - began) / LONE * 1e6)
            began = time.perf_counter()
            runs2 = await asyncio.gather(*(engine.start(job, STEPS) for _ in range(RUNS)))
            await asyncio.gather(*(run.result() for run in runs2))
            show("steps_per_second", RUNS * STEPS / (time.perf_counter() - began))

    asyncio.run(main())


def goldseam_restart(url: str) -> None:
    """Continues the stalled runs; prints the time from the open to the end of the last one."""
    import goldseam as gs

    @gs.step
    async def stall() -> int:
        return 1

    @gs.workflow
    async def stalled() -> int:
        return await stall()

    async def main() -> None:
        began = time.perf_counter()
        async with gs.open(url, workflows=[stalled], slots=1024) as engine:
            for at in range(STALLED):
                await engine.result(f"stalled-{at}")
            show("restart_seconds", time.perf_counter() - began)

    asyncio.run(main())


# ---------------------------------------------------------------------------------------------------------- dbos


def dbos(url: str) -> None:
    from dbos import DBOS, DBOSConfig

    config: DBOSConfig = {"name": "bench", "system_database_url": url, "log_level": "ERROR"}
    DBOS(config=config)

    @DBOS.step()
    async def work(number: int) -> int:
        return number

    @DBOS.workflow()
    async def job(count: int) -> int:
        total = 0
        for number in range(count):
            total += await work(number)
        return total

    DBOS.launch()

    async def main() -> None:
        await (await DBOS.start_workflow_async(job, 20)).get_result()
        lone = LONE // 10
        began = time.perf_counter()
        await (await DBOS.start_workflow_async(job, lone)).get_result()
        show("lone_step_us", (time.perf_counter() - began) / lone * 1e6)
        steps = max(5, STEPS // 10)
        began = time.perf_counter()
        handles = [await DBOS.start_workflow_async(job, steps) for _ in range(RUNS)]
        for handle in handles:
            await handle.get_result()
        show("steps_per_second", RUNS * steps / (time.perf_counter() - began))

    asyncio.run(main())
    DBOS.destroy()


# -------------------------------------------------------------------------------------------------------- ratios


def measured(*args: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, *args], stdout=subprocess.PIPE, text=True)
    pairs = [line.split("=") for line in done.stdout.splitlines() if "=" in line]
    return {name: float(value) for name, value in pairs}


def ratios(folder: str, postgres: str | None) -> None:
    stores = [("sqlite", f"sqlite:{folder}/gs.db", f"sqlite:///{folder}/dbos.sqlite")]
    if postgres:
        stores.append(("postgres", postgres, postgres.replace("postgres://", "postgresql://")))
    for name, ours, theirs in stores:
        mine, other = measured("goldseam", ours), measured("dbos", theirs)
        for figure in ("lone_step_us", "steps_per_second"):
            if figure in mine and figure in other:
                print(f"{name} {figure}: goldseam {mine[figure]:.4g}, dbos {other[figure]:.4g}, ratio {mine[figure] / other[figure]:.3g}")
            else:
                print(f"{name} {figure}: goldseam {mine.get(figure)}, dbos {other.get(figure)}")
        measured("stall", ours)
        print(f"{name} restart of {STALLED} runs: {measured('restart', ours).get('restart_seconds')} s")


if __name__ == "__main__":
    what, where = sys.argv[1], sys.argv[2]
    if what == "goldseam":
        goldseam(where, False)
    elif what == "stall":
        goldseam(where, True)
    elif what == "restart":
        goldseam_restart(where)
    elif what == "dbos":
        dbos(where)
    else:
        ratios(where, sys.argv[3] if len(sys.argv) > 3 else None)
