"""One suite for both transports: the engine in this process, and a server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator

import pytest

import goldseam as gs

_numbers = itertools.count(1)

SOURCE = pathlib.Path(gs.__file__).resolve().parent


def python(code: str, *args: str, hash_seed: str | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Runs a program in another interpreter."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    if hash_seed is not None:
        environment["PYTHONHASHSEED"] = hash_seed
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        capture_output=True, text=True, timeout=timeout, env=environment,
    )  # fmt: skip


def binary() -> str | None:
    """The goldseam command: of the environment, of the wheel, or of the path."""
    named = os.environ.get("GOLDSEAM_BIN")
    if named:
        return named
    carried = os.path.join(sysconfig.get_path("scripts"), "goldseam")
    return carried if os.path.exists(carried) else shutil.which("goldseam")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Server:
    """A private server on loopback, which may be killed and started again."""

    def __init__(self, store: str, *options: str, port: int | None = None) -> None:
        command = binary()
        assert command is not None, "the goldseam command is missing; set GOLDSEAM_BIN"
        self._port = port or free_port()
        self._command = [command, "serve", "--store", store, "--listen", f"127.0.0.1:{self._port}", *options]
        self.url = f"http://127.0.0.1:{self._port}"
        # Not a pipe: a pipe that no thread reads fills up and stops the server.
        self._said = tempfile.TemporaryFile()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process, and waits until it listens."""
        self._process = subprocess.Popen(self._command, stdout=self._said, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._said.seek(0)
                raise AssertionError(self._said.read().decode("utf-8", "replace"))
            time.sleep(0.02)

    def kill(self) -> None:
        """Kills the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._said.close()


@contextlib.contextmanager
def server(store: str, *options: str, port: int | None = None) -> Iterator[str]:
    """A private server on loopback."""
    with Server(store, *options, port=port) as there:
        yield there.url


@pytest.fixture(scope="session")
def http_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    with server(f"sqlite:{folder}/s.db") as url:
        yield url


@pytest.fixture(params=["native", "http"])
def url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    """The URL of an engine, once per transport."""
    if request.param == "http":
        return str(request.getfixturevalue("http_url"))
    return f"sqlite:{tmp_path}/t.db"


@pytest.fixture
def sqlite_url(tmp_path: pathlib.Path) -> str:
    return f"sqlite:{tmp_path}/t.db"


def new_id(prefix: str = "r") -> str:
    """An id that no other test uses: tests share a server."""
    return f"{prefix}-{os.getpid()}-{next(_numbers)}-{time.time_ns()}"


async def until(condition: Callable[[], Awaitable[Any]], timeout: float = 60.0) -> Any:
    """Waits for a condition."""
    deadline = time.monotonic() + timeout
    while True:
        found = await condition()
        if found:
            return found
        assert time.monotonic() < deadline, "the condition did not hold in time"
        await asyncio.sleep(0.01)


async def asked(engine: gs.Client, run: str) -> Any:
    """Waits for a question of a run."""

    async def question() -> Any:
        return (await engine.questions(run))["items"]

    return (await until(question))[0]


async def status_is(engine: gs.Client, run: str, *wanted: str) -> str:
    async def status() -> Any:
        found = (await engine.poll(run))["status"]
        return found if found in wanted else None

    return str(await until(status))


def unique(*workflows: Any) -> Any:
    """Gives workflows names of their own: tests share a server, and its workers."""
    made = []
    suffix = f"{os.getpid()}-{next(_numbers)}"
    for workflow in workflows:
        workflow.name = f"{workflow.name.partition('@')[0]}-{suffix}"
        made.append(workflow)
    return made


@contextlib.asynccontextmanager
async def opened(url: str, *workflows: Any, **options: Any) -> AsyncIterator[gs.Engine]:
    async with gs.open(url, workflows=workflows, drain=2, **options) as engine:
        yield engine
