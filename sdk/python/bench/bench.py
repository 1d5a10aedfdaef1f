"""The latency of a lone step, steps per second, and the restart with 500 runs in mid-step: Goldseam beside DBOS in one run.

    python bench.py all FOLDER [--postgres URL] [--rust PATH]    # alternating rounds of both, medians and ratios
    python bench.py goldseam|dbos lone|many|stall|restart URL    # one measurement, in this process

``--rust`` names the program ``goldseam-bench``, whose latency is the baseline of a lone step. DBOS makes a tenth of the steps,
because it needs about ten times as long. A lone step is the median of windows of ten steps, as in ``goldseam-bench``. Needs ``goldseam``, ``dbos`` and, for Postgres, ``psycopg``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

LONE = int(os.environ.get("BENCH_LONE", "2000"))
RUNS = int(os.environ.get("BENCH_RUNS", "64"))
STEPS = int(os.environ.get("BENCH_STEPS", "100"))
STALLED = int(os.environ.get("BENCH_STALLED", "500"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))


#: When each step began.
began_at: list[float] = []


def show(name: str, value: float) -> None:
    print(f"{name}={value:.6g}", flush=True)


def show_lone() -> None:
    """The median of windows of ten steps: other programs on the machine disturb some of them."""
    windows = [(began_at[at + 10] - began_at[at]) / 10 for at in range(0, len(began_at) - 10, 10)]
    show("lone_step_us", statistics.median(windows) * 1e6)


# ------------------------------------------------------------------------------------------------------ goldseam


def goldseam(what: str, url: str) -> None:
    import goldseam as gs

    @gs.step
    async def work(number: int) -> int:
        began_at.append(time.perf_counter())
        return number

    @gs.workflow
    async def job(count: int) -> int:
        total = 0
        for number in range(count):
            total += await work(number)
        return total

    @gs.step
    async def stall() -> int:
        if what == "stall":
            await asyncio.sleep(3600)
        return 1

    @gs.workflow
    async def stalled() -> int:
        return await stall()

    async def main() -> None:
        began = time.perf_counter()
        async with gs.open(url, workflows=[job, stalled], slots=1024) as engine:
            if what == "restart":
                await asyncio.gather(*(engine.result(f"stalled-{at}") for at in range(STALLED)))
                show("restart_seconds", time.perf_counter() - began)
            elif what == "stall":
                await asyncio.gather(*(engine.start(stalled, id=f"stalled-{at}") for at in range(STALLED)))
                assert engine.worker is not None
                # A step that runs for a second is in the log: it is in the middle of an attempt.
                while (await engine.groups(where="status = running"))["total"] < STALLED:
                    await asyncio.sleep(0.05)
                await asyncio.sleep(2)
                os.kill(os.getpid(), 9)
            elif what == "lone":
                await (await engine.start(job, 200)).result()
                began_at.clear()
                await (await engine.start(job, LONE)).result()
                show_lone()
            else:
                await (await engine.start(job, 50)).result()
                began = time.perf_counter()
                runs = await asyncio.gather(*(engine.start(job, STEPS) for _ in range(RUNS)))
                await asyncio.gather(*(run.result() for run in runs))
                show("steps_per_second", RUNS * STEPS / (time.perf_counter() - began))

    asyncio.run(main())


# ---------------------------------------------------------------------------------------------------------- dbos


def dbos(what: str, url: str) -> None:
    from dbos import DBOS, DBOSConfig, SetWorkflowID

    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "log_level": "ERROR",
        "run_admin_server": False,
        "application_version": "1",
    }
    DBOS(config=config)

    @DBOS.step()
    async def work(number: int) -> int:
        began_at.append(time.perf_counter())
        return number

    @DBOS.workflow()
    async def job(count: int) -> int:
        total = 0
        for number in range(count):
            total += await work(number)
        return total

    @DBOS.step()
    async def stall() -> int:
        if what == "stall":
            await asyncio.sleep(3600)
        return 1

    @DBOS.workflow()
    async def stalled() -> int:
        return await stall()

    async def main() -> None:
        began = time.perf_counter()
        DBOS.launch()
        if what == "restart":
            for at in range(STALLED):
                await (await DBOS.retrieve_workflow_async(f"stalled-{at}")).get_result()
            show("restart_seconds", time.perf_counter() - began)
        elif what == "stall":
            for at in range(STALLED):
                with SetWorkflowID(f"stalled-{at}"):
                    await DBOS.start_workflow_async(stalled)
            await asyncio.sleep(2)
            os.kill(os.getpid(), 9)
        elif what == "lone":
            await (await DBOS.start_workflow_async(job, 20)).get_result()
            began_at.clear()
            await (await DBOS.start_workflow_async(job, max(30, LONE // 10))).get_result()
            show_lone()
        else:
            await (await DBOS.start_workflow_async(job, 20)).get_result()
            steps = max(5, STEPS // 10)
            began = time.perf_counter()
            handles = [await DBOS.start_workflow_async(job, steps) for _ in range(RUNS)]
            for handle in handles:
                await handle.get_result()
            show("steps_per_second", RUNS * steps / (time.perf_counter() - began))

    asyncio.run(main())
    os._exit(0)


# ----------------------------------------------------------------------------------------------------------- all


def measured(system: str, what: str, url: str) -> float | None:
    """Measures in a process of its own."""
    done = subprocess.run([sys.executable, __file__, system, what, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    found = [line.partition("=")[2] for line in done.stdout.splitlines() if "=" in line]
    if not found and what != "stall":
        print(f"{system} {what} printed nothing: {done.stderr[-2000:]}", file=sys.stderr)
    return float(found[-1]) if found else None


def rust_latency(program: str, store: str) -> float:
    """Microseconds of a step of the Rust engine."""
    command = [program, "latency", "--json", "--store", store]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])
    return float(found["value"])


def restarted(system: str, url: str) -> float | None:
    measured(system, "stall", url)
    return measured(system, "restart", url)


def compare(store: str, ours: Any, theirs: Any, rust: str | None) -> None:
    """Measures on one kind of store; ``ours`` and ``theirs`` make a fresh URL for each round."""
    figures: dict[str, list[float]] = {}

    def keep(name: str, value: float | None) -> None:
        if value is not None:
            figures.setdefault(name, []).append(value)

    for _ in range(ROUNDS):
        for what in ("lone", "many"):
            keep(f"goldseam {what}", measured("goldseam", what, ours()))
            if rust is not None and what == "lone":
                keep("rust lone", rust_latency(rust, "postgres" if store == "postgres" else ours()))
            keep(f"dbos {what}", measured("dbos", what, theirs()))
    for _ in range(ROUNDS):
        keep("goldseam restart", restarted("goldseam", ours()))
    keep("dbos restart", restarted("dbos", theirs()))
    found = {name: statistics.median(values) for name, values in figures.items()}
    units = {"lone": "µs a step", "many": f"steps/s with {RUNS} runs", "restart": f"s to end {STALLED} runs in mid-step"}
    for what, unit in units.items():
        mine, other, base = (found.get(f"{system} {what}") for system in ("goldseam", "dbos", "rust"))
        line = f"{store} {what}: goldseam {_text(mine)}, dbos {_text(other)} {unit}"
        if mine and other:
            line += f", ratio {mine / other if what == 'many' else other / mine:.1f}"
        if mine and base:
            line += f"; Rust {_text(base)}, ratio {mine / base:.2f}"
        print(line, flush=True)


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def all_of(folder: str, postgres: str | None, rust: str | None) -> None:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import goldseam"], check=True)
    print(f"interpreter with the package: {time.perf_counter() - began:.2f} s; load {os.getloadavg()[0]:.1f}", flush=True)
    numbers = iter(range(1_000_000))
    os.makedirs(folder, exist_ok=True)
    compare(
        "sqlite",
        lambda: f"sqlite:{folder}/gs-{os.getpid()}-{next(numbers)}.db",
        lambda: f"sqlite:///{folder}/dbos-{os.getpid()}-{next(numbers)}.sqlite",
        rust,
    )
    if postgres is not None:
        compare(
            "postgres",
            lambda: f"{postgres}{'&' if '?' in postgres else '?'}schema=gs_{os.getpid()}_{next(numbers)}",
            lambda: _fresh_database(postgres, f"dbos_{os.getpid()}_{next(numbers)}"),
            rust,
        )


def _fresh_database(postgres: str, name: str) -> str:
    import urllib.parse

    import psycopg

    url = postgres.replace("postgres://", "postgresql://")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(path=f"/{name}"))


if __name__ == "__main__":
    if sys.argv[1] in ("goldseam", "dbos"):
        {"goldseam": goldseam, "dbos": dbos}[sys.argv[1]](sys.argv[2], sys.argv[3])
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("what", choices=["all"])
        parser.add_argument("folder")
        parser.add_argument("--postgres")
        parser.add_argument("--rust")
        given = parser.parse_args()
        all_of(os.path.abspath(given.folder), given.postgres, given.rust)
