"""Storms: fleets of processes on one store that are killed while runs go on, and the comparison with what they witnessed."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Iterator

from conftest import new_id

import goldseam as gs

SEED = int(os.environ.get("GOLDSEAM_KILL_SEED", "1"))
HERE = pathlib.Path(__file__).parent
#: Steps of a run of version 1 of the job, by version.
STEPS = {1: 8, 2: 9}

#: The stores that processes can share; those of ``cargo xtask python --long`` have an address in the environment.
SHARED = ["sqlite"]
SHARED += ["postgres"] if os.environ.get("GOLDSEAM_TEST_POSTGRES") else []
SHARED += ["s3"] if os.environ.get("GOLDSEAM_TEST_S3") else []


def url_of(store: str, tmp_path: pathlib.Path) -> str:
    """The URL of a fresh store."""
    name = f"py_{os.getpid()}_{time.time_ns() % 10**9}"
    if store == "memory":
        return "memory:"
    if store == "sqlite":
        return f"sqlite:{tmp_path}/{name}.db"
    address = os.environ["GOLDSEAM_TEST_POSTGRES" if store == "postgres" else "GOLDSEAM_TEST_S3"]
    if store == "postgres":
        return f"{address}{'&' if '?' in address else '?'}schema={name}"
    path, mark, options = address.partition("?")
    return f"{path.rstrip('/')}/{name}{mark}{options}"


class Workers:
    """Processes that execute the job, each on its URL and with its versions of the code."""

    def __init__(self, witness: pathlib.Path) -> None:
        self.witness = witness
        package = str(pathlib.Path(gs.__file__).resolve().parent.parent)
        self.environment = {**os.environ, "WITNESS": str(witness)}
        self.environment["PYTHONPATH"] = f"{package}:{os.environ.get('PYTHONPATH', '')}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self._arguments: list[list[str]] = []

    def add(self, url: str, versions: str = "1") -> subprocess.Popen[bytes]:
        """Starts one more process."""
        self._arguments.append([url, versions])
        self.processes.append(self._spawn(len(self.processes)))
        return self.processes[-1]

    def _spawn(self, at: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(HERE / "killed_worker.py"), *self._arguments[at]]
        return subprocess.Popen(command, env=self.environment)

    def kill_one(self, draw: random.Random) -> None:
        """Kills a process, and starts another one for it."""
        at = draw.randrange(len(self.processes))
        process = self.processes[at]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.processes[at] = self._spawn(at)

    async def at_work(self) -> None:
        """Waits until some effect happens."""
        before = size(self.witness)
        deadline = time.monotonic() + 60
        while size(self.witness) == before:
            assert time.monotonic() < deadline, "no worker works"
            await asyncio.sleep(0.002)

    @contextlib.contextmanager
    def ending(self) -> Iterator["Workers"]:
        """Ends the processes at the end."""
        try:
            yield self
        finally:
            for process in self.processes:
                process.kill()
                process.wait()


def size(path: pathlib.Path) -> int:
    return path.stat().st_size if path.exists() else 0


async def storm(
    client: gs.Client, workers: Workers, kills: int, kill: Callable[[random.Random], None] | None = None, runs: int = 12
) -> list[str]:
    """Starts runs and kills processes until enough are dead, then waits for all runs."""
    from killed_worker import job

    draw = random.Random(SEED)
    started: list[str] = []
    for _ in range(kills):
        for _ in range(runs):
            run = await client.start(job, draw.randrange(100), id=new_id("k"))
            started.append(run.id)
        await workers.at_work()
        await asyncio.sleep(draw.uniform(0.0, 0.1))
        (kill or workers.kill_one)(draw)
    for run_id in started:
        await client.result(run_id, 300)
    return started


async def check(
    client: gs.Client, runs: list[str], witness: pathlib.Path, version: int = 1, *, same_clock: bool = True
) -> int:
    """Compares the logs with the witness. Returns how often an effect began again.

    ``same_clock``: the log has the clock of this machine, as the witness has, in milliseconds. Nodes of a remote store estimate its clock.
    """
    begun: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    places: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    ended: dict[tuple[str, str], int] = collections.Counter()
    for place, line in enumerate(witness.read_text().splitlines()):
        what, run, path, at = line.split()
        if what == "begin":
            begun[(run, path)].append(int(at))
            places[(run, path)].append(place)
        else:
            ended[(run, path)] += 1
    lost, repeated, again, steps = [], [], 0, 0
    for run in runs:
        log: list[Any] = (await client.history(run, limit=500))["items"]
        arms: dict[str, dict[int, tuple[str, str]]] = collections.defaultdict(dict)
        for event in log:
            assert event["type"] not in ("run.parked", "run.failed"), event
            if event["type"] != "step.completed":
                continue
            steps += 1
            path = event["data"]["path"]
            key = (run, path)
            arms[path.rpartition("/")[0]][event["data"]["ord"]] = key
            if not ended[key]:
                lost.append(key)
            if same_clock:
                repeated += [key for at in begun[key] if at > event["at"] + 1]
            again += len(begun[key]) - 1
        for arm in arms.values():
            # A step begins when the one before it is recorded, so that one must not begin later.
            keys = [arm[order] for order in sorted(arm)]
            repeated += [key for key, following in zip(keys, keys[1:]) if places[key][-1:] > places[following][:1]]
    print(f"runs {len(runs)}, steps {steps}, begun again after a kill {again}, lost {len(lost)}, repeated {len(repeated)}")
    assert lost == [] and repeated == []
    assert steps == len(runs) * STEPS[version]
    return again
