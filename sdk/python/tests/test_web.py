"""The guide's application under uvicorn and gunicorn: requests start runs, SIGTERM drains, a killed process is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import urllib.request
from typing import Any, Iterator

import pytest
from conftest import free_port, until
from test_docs import environment, examples

import goldseam as gs

UVICORN = ["uvicorn", "web:app", "--port"]
GUNICORN = ["gunicorn", "web:app", "--worker-class", "uvicorn_worker.UvicornWorker", "--workers", "2", "--bind"]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with the programs of the guide."""
    first, _, web = examples("docs/guides/python.md")
    (tmp_path / "orders.py").write_text(first)
    (tmp_path / "web.py").write_text(web)
    return tmp_path


@contextlib.contextmanager
def served(command: list[str], port: int, folder: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    at = f"127.0.0.1:{port}" if command[-1] == "--bind" else str(port)
    program = subprocess.Popen([sys.executable, "-m", *command, at], cwd=folder, env=environment(), start_new_session=True)
    try:
        yield program
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


async def post(port: int, order: str) -> None:
    """Starts a run by a request."""

    def sent() -> bool:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/orders/{order}", method="POST")
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    async def attempt() -> bool:
        return await asyncio.to_thread(sent)

    await until(attempt)


@pytest.mark.parametrize("command", [UVICORN, GUNICORN], ids=["uvicorn", "gunicorn"])
def test_application_of_the_guide_drains_and_continues(command: list[str], folder: pathlib.Path) -> None:
    async def main() -> None:
        port = free_port()
        async with gs.open(f"sqlite:{folder}/orders.db") as client:
            with served(command, port, folder) as first:
                await post(port, "1")
                await client.question("order-1", "approve", timeout=60)
                first.terminate()
                # uvicorn raises the signal again after the shutdown.
                assert first.wait(60) in (0, -signal.SIGTERM)
            await client.answer("order-1", "approve", True)
            with served(command, port, folder):
                await post(port, "1")
                assert (await client.result("order-1", 60))["parts"] == ["PEN"]

    asyncio.run(main())


def test_killed_worker_of_gunicorn_is_replaced(folder: pathlib.Path) -> None:
    async def main() -> None:
        port = free_port()
        async with gs.open(f"sqlite:{folder}/orders.db") as client:
            with served(GUNICORN, port, folder) as program:
                for number in range(6):
                    await post(port, f"{number}")
                for number in range(6):
                    await client.question(f"order-{number}", "approve", timeout=60)
                for worker in children(program.pid):
                    os.kill(worker, signal.SIGKILL)
                for number in range(6):
                    await client.answer(f"order-{number}", "approve", True)
                results: list[Any] = [await client.result(f"order-{number}", 60) for number in range(6)]
                assert all(result["parts"] == ["PEN"] for result in results)

    asyncio.run(main())


def children(pid: int) -> list[int]:
    """The worker processes of gunicorn's master."""
    found = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]
