"""SIGKILL of Python workers: no run is lost, and no step begins again after its result was recorded.

``GOLDSEAM_KILLS`` sets the number of kills. ``GOLDSEAM_TEST_POSTGRES`` adds a Postgres store, with a quarter of them.
"""

from __future__ import annotations

import asyncio
import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from typing import Any, Iterator

import pytest
from conftest import new_id, server

import goldseam as gs
from killed_worker import job

KILLS = int(os.environ.get("GOLDSEAM_KILLS", "5"))
SEED = int(os.environ.get("GOLDSEAM_KILL_SEED", "1"))
HERE = pathlib.Path(__file__).parent


class Workers:
    """Worker processes."""

    def __init__(self, url: str, count: int, witness: pathlib.Path) -> None:
        self.url = url
        self.witness = witness
        package = str(pathlib.Path(gs.__file__).resolve().parent.parent)
        self.environment = {**os.environ, "WITNESS": str(witness), "PYTHONPATH": package}
        self.processes = [self.spawn() for _ in range(count)]

    def spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, str(HERE / "killed_worker.py"), self.url], env=self.environment)

    def kill_one(self, draw: random.Random) -> None:
        at = draw.randrange(len(self.processes))
        process = self.processes[at]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.processes[at] = self.spawn()

    async def at_work(self) -> None:
        """Waits until some effect happens."""
        before = size(self.witness)
        deadline = time.monotonic() + 60
        while size(self.witness) == before:
            assert time.monotonic() < deadline, "no worker works"
            await asyncio.sleep(0.002)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def size(path: pathlib.Path) -> int:
    return path.stat().st_size if path.exists() else 0


def stores() -> Iterator[str]:
    yield "sqlite"
    if os.environ.get("GOLDSEAM_TEST_POSTGRES"):
        yield "postgres"


def url_of(store: str, tmp_path: pathlib.Path) -> str:
    if store == "sqlite":
        return f"sqlite:{tmp_path}/k.db"
    address = os.environ["GOLDSEAM_TEST_POSTGRES"]
    separator = "&" if "?" in address else "?"
    return f"{address}{separator}schema=py_{os.getpid()}_{time.time_ns() % 10**9}"


@pytest.mark.parametrize("store", list(stores()))
def test_killed_workers_lose_nothing_and_repeat_nothing(store: str, tmp_path: pathlib.Path) -> None:
    url = url_of(store, tmp_path)
    witness = tmp_path / "witness"
    with gs.open(url) as client:
        account = asyncio.run_coroutine_threadsafe(
            storm(client.engine, Workers(url, 2, witness), KILLS if store == "sqlite" else max(2, KILLS // 4)), client._loop
        ).result(1800)
        check(client, account, witness)


def test_two_python_processes_and_a_server_share_a_store(tmp_path: pathlib.Path) -> None:
    store = f"sqlite:{tmp_path}/k.db"
    witness = tmp_path / "witness"
    with server(store) as http, gs.open(http) as client:
        account = asyncio.run_coroutine_threadsafe(
            storm(client.engine, Workers(store, 2, witness), 2), client._loop
        ).result(600)
        check(client, account, witness)


async def storm(client: gs.Client, workers: Workers, kills: int) -> list[str]:
    """Starts runs and kills workers until enough are dead, then waits for all runs."""
    draw = random.Random(SEED)
    runs: list[str] = []
    try:
        for _ in range(kills):
            for _ in range(12):
                run = await client.start(job, draw.randrange(100), id=new_id("k"))
                runs.append(run.id)
            await workers.at_work()
            await asyncio.sleep(draw.uniform(0.0, 0.1))
            workers.kill_one(draw)
        for run_id in runs:
            await client.result(run_id, 300)
    finally:
        workers.end()
    return runs


def check(client: Any, runs: list[str], witness: pathlib.Path) -> None:
    """Compares the logs with the witness."""
    begun: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    ended: dict[tuple[str, str], int] = collections.Counter()
    for line in witness.read_text().splitlines():
        what, run, path, at = line.split()
        if what == "begin":
            begun[(run, path)].append(int(at))
        else:
            ended[(run, path)] += 1
    lost, repeated, again = [], [], 0
    for run in runs:
        for event in client.history(run, limit=500)["items"]:
            if event["type"] != "step.completed":
                continue
            key = (run, event["data"]["path"])
            if not ended[key]:
                lost.append(key)
            # The clock of the log and of the witness is that of this machine; a millisecond is its resolution.
            repeated += [key for at in begun[key] if at > event["at"] + 1]
            again += len(begun[key]) - 1
    print(f"runs {len(runs)}, steps {len(begun)}, begun again after a kill {again}, lost {len(lost)}, repeated {len(repeated)}")
    assert lost == [] and repeated == []
    assert len(begun) == len(runs) * 8
    assert again > 0 or KILLS < 20, "no kill hit a step"
