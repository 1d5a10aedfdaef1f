"""Fleets on one store: Python beside Rust, workers of a server that dies, and two versions of the code side by side."""

from __future__ import annotations

import asyncio
import os
import pathlib
import random
from typing import Any

import pytest
from conftest import Server, free_port, new_id, server, until
from killed_worker import job, job_2
from storms import SHARED, Workers, check, storm, url_of

import goldseam as gs

KILLS = max(2, int(os.environ.get("GOLDSEAM_KILLS", "8")) // 4)


@pytest.mark.parametrize("store", SHARED)
def test_python_processes_a_server_and_its_worker_share_a_store(store: str, tmp_path: pathlib.Path) -> None:
    """Two embedded engines, a Rust server, and a worker of the server; all of Python's are killed in turn."""
    url, witness = url_of(store, tmp_path), tmp_path / "witness"

    async def main() -> None:
        with server(url) as http, Workers(witness).ending() as workers:
            for where in (url, url, http):
                workers.add(where)
            async with gs.open(http) as client:
                await check(client, await storm(client, workers, KILLS + 1), witness, same_clock=store == "sqlite")
                assert (await client.doctor())["findings"] == []

    asyncio.run(main())


@pytest.mark.parametrize("store", SHARED)
def test_workers_survive_a_server_that_is_killed_again_and_again(store: str, tmp_path: pathlib.Path) -> None:
    url, witness = url_of(store, tmp_path), tmp_path / "witness"

    async def main() -> None:
        with Server(url, port=free_port()) as there, Workers(witness).ending() as workers:
            for _ in range(2):
                workers.add(there.url)
            async with gs.open(there.url) as client:

                def restart(_: random.Random) -> None:
                    there.kill()
                    there.start()

                await check(client, await storm(client, workers, KILLS + 1, restart), witness, same_clock=store == "sqlite")
            assert all(process.poll() is None for process in workers.processes), "a worker ended with its server"

    asyncio.run(main())


@pytest.mark.parametrize("transport", ["native", "http"])
def test_rolling_deploy_parks_nothing_and_fails_nothing(transport: str, tmp_path: pathlib.Path) -> None:
    """Processes with the old code, with both versions, and with the new code alone, one after another in one fleet."""
    store, witness = url_of("sqlite", tmp_path), tmp_path / "witness"

    async def deploy(url: str) -> None:
        with Workers(witness).ending() as workers:
            old, other = workers.add(url, "1"), workers.add(url, "1")
            async with gs.open(url) as client:
                first, second = await started(client, job, 8), await started(client, job, 8)
                await workers.at_work()
                # The new code is there before runs ask for it: one process after another is replaced.
                workers.add(url, "1,2")
                third = await started(client, job_2, 8)
                await until(lambda: any_ended(client, third))
                old.terminate()
                assert old.wait(60) == 0
                workers.add(url, "1,2")
                fourth = await started(client, job_2, 8)
                other.terminate()
                assert other.wait(60) == 0
                for run in [*first, *second, *third, *fourth]:
                    await client.result(run, 120)
                await check(client, [*first, *second], witness, 1)
                await check(client, [*third, *fourth], witness, 2)
                assert (await client.doctor())["findings"] == []

    if transport == "native":
        asyncio.run(deploy(store))
        return
    with server(store) as http:
        asyncio.run(deploy(http))


def test_runs_of_code_that_no_process_has_wait_and_say_so(tmp_path: pathlib.Path) -> None:
    url, witness = url_of("sqlite", tmp_path), tmp_path / "witness"

    async def main() -> None:
        with Workers(witness).ending() as workers:
            workers.add(url, "2")
            async with gs.open(url) as client:
                (new,), (old,) = await started(client, job_2, 1), await started(client, job, 1)
                await client.result(new, 60)
                assert (await client.poll(old))["status"] not in ("parked", "failed")
                assert "job@1" in str(await client.why(old))
                workers.add(url, "1")
                await client.result(old, 60)
                await check(client, [old], witness, 1)

    asyncio.run(main())


async def started(client: gs.Client, workflow: Any, count: int) -> list[str]:
    return [(await client.start(workflow, number, id=new_id("f"))).id for number in range(count)]


async def any_ended(client: gs.Client, runs: list[str]) -> bool:
    return any([(await client.poll(run))["status"] == "completed" for run in runs])
