"""SIGKILL of Python workers: no run is lost, and no step begins again after its result was recorded.

``GOLDSEAM_KILLS`` sets the number of kills. ``cargo xtask python --long`` adds Postgres and S3, with a quarter of them.
"""

from __future__ import annotations

import asyncio
import os
import pathlib

import pytest
from storms import SHARED, Workers, check, storm, url_of

import goldseam as gs

KILLS = int(os.environ.get("GOLDSEAM_KILLS", "5"))


@pytest.mark.parametrize("store", SHARED)
def test_killed_workers_lose_nothing_and_repeat_nothing(store: str, tmp_path: pathlib.Path) -> None:
    url, witness = url_of(store, tmp_path), tmp_path / "witness"
    kills = KILLS if store == "sqlite" else max(2, KILLS // 4)

    async def main() -> None:
        async with gs.open(url) as client:
            with Workers(witness).ending() as workers:
                workers.add(url)
                workers.add(url)
                again = await storm(client, workers, kills)
            assert await check(client, again, witness, same_clock=store == "sqlite") > 0 or kills < 20, "no kill hit a step"

    asyncio.run(main())
