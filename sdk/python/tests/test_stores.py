"""Embedded engines on every store: in memory, SQLite, and the servers that ``cargo xtask python --long`` starts."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from conftest import status_is, until
from storms import SHARED, url_of

import goldseam as gs

STORES = ["memory", *SHARED]


@gs.step
async def add(number: int) -> int:
    return number + 1


@gs.step
def double(number: int) -> int:
    return number * 2


@gs.step
async def hang() -> int:
    await asyncio.sleep(0 if os.environ.get("HANG") is None else 3600)
    return 7


@gs.workflow
async def mixed(number: int) -> list[int]:
    parts = await asyncio.gather(add(number), double(number))
    await gs.sleep("nap", 0.05)
    parts.append(await gs.signal("more", int))
    return parts


@gs.workflow
async def hangs() -> int:
    return await add(1) + await hang()


@pytest.mark.parametrize("store", STORES)
def test_every_store_executes_runs(store: str, tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        async with gs.open(url_of(store, tmp_path), workflows=[mixed], drain=5) as engine:
            run = await engine.start(mixed, 3, id="m-1")
            await status_is(engine, run.id, "waiting")
            await run.signal("more", 9)
            assert await run.result(120) == [4, 6, 9]
            assert (await engine.doctor())["findings"] == []

    asyncio.run(main())


@pytest.mark.parametrize("store", STORES[1:])
def test_killed_process_is_replaced_on_every_store(store: str, tmp_path: pathlib.Path) -> None:
    url = url_of(store, tmp_path)
    package = str(pathlib.Path(gs.__file__).resolve().parent.parent)
    environment = {**os.environ, "HANG": "1", "PYTHONPATH": f"{package}:{os.environ.get('PYTHONPATH', '')}"}
    worker = subprocess.Popen([sys.executable, __file__, url], env=environment)

    async def main() -> None:
        async with gs.open(url) as client:
            run = await client.start(hangs, id="h-1")

            async def in_the_step() -> bool:
                return "add" in str((await run.history())["items"]) and (await run.status()) == "running"

            await until(in_the_step, 120)
        worker.kill()
        worker.wait()
        async with gs.open(url, workflows=[hangs]) as engine:
            assert await engine.result("h-1", 120) == 9
            log: list[Any] = (await engine.history("h-1"))["items"]
            assert [event["data"]["path"] for event in log if event["type"] == "step.completed"] == ["add", "hang"]

    try:
        asyncio.run(main())
    finally:
        worker.kill()
        worker.wait()


async def serve(url: str) -> None:
    async with gs.open(url, workflows=[hangs]) as engine:
        await engine.serve()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
