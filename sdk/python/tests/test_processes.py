"""Traps of the process: forks, loops, signals, the end of the interpreter, copies of the package, hash seeds."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest
from conftest import SOURCE, new_id, opened, python, unique

import goldseam as gs


def test_fork_after_open_is_a_clear_error_and_no_hang(sqlite_url: str) -> None:
    done = python(
        """
        import os, sys, goldseam as gs
        engine = gs.open(sys.argv[1]).__enter__()
        engine.list()
        child = os.fork()
        if child == 0:
            try:
                engine.list()
            except gs.Closed as error:
                os._exit(0 if error.code == "GS0630" else 3)
            os._exit(4)
        status = os.waitpid(child, 0)[1]
        engine.list()
        engine.close()
        print(os.waitstatus_to_exitcode(status))
        """,
        sqlite_url,
    )
    assert done.stdout.strip() == "0", done.stderr


def test_native_transport_refuses_a_forked_child(sqlite_url: str) -> None:
    done = python(
        """
        import os, sys
        import goldseam as gs
        from goldseam._engine import connect
        transport = connect(sys.argv[1])
        child = os.fork()
        if child == 0:
            try:
                transport.request("GET", "/v1/runs")
            except gs.Closed as error:
                os._exit(0 if error.code == "GS0630" else 3)
            os._exit(4)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        transport.close()
        """,
        sqlite_url,
    )
    assert done.stdout.strip() == "0", done.stderr


def test_closed_loop_leaves_the_engine_usable_by_others(sqlite_url: str) -> None:
    done = python(
        """
        import asyncio, sys, goldseam as gs

        @gs.step
        async def slow() -> None:
            await asyncio.sleep(3600)

        @gs.workflow
        async def job() -> None:
            await slow()

        async def first() -> None:
            engine = await gs.open(sys.argv[1], workflows=[job])
            await engine.start(job, id="j-1")
            while (await engine.poll("j-1"))["status"] != "running":
                await asyncio.sleep(0.01)

        asyncio.run(first())       # ends without a close
        print("ended")
        """,
        sqlite_url,
    )
    assert done.stdout.strip() == "ended" and done.returncode == 0, done.stderr


def test_interpreter_ends_with_work_in_flight(sqlite_url: str) -> None:
    done = python(
        """
        import sys, time, goldseam as gs

        @gs.step
        def slow() -> None:
            time.sleep(3600)

        @gs.workflow
        def job() -> None:
            slow()

        engine = gs.open(sys.argv[1], workflows=[job]).__enter__()
        for number in range(5):
            engine.start(job, id=f"j-{number}")
        while engine.list(status="running")["items"] == []:
            time.sleep(0.01)
        print("ended")
        """,
        sqlite_url,
    )
    assert done.stdout.strip() == "ended" and done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_drain_running_steps(sqlite_url: str, number: signal.Signals, tmp_path: pathlib.Path) -> None:
    witness = tmp_path / "witness"
    code = """
        import asyncio, sys, goldseam as gs

        @gs.step
        async def slow() -> int:
            open(sys.argv[2], "a").write("begin\\n")
            await asyncio.sleep(0.5)
            open(sys.argv[2], "a").write("end\\n")
            return 1

        @gs.step
        async def never() -> int:
            open(sys.argv[2], "a").write("never\\n")
            return 1

        @gs.workflow
        async def job() -> int:
            return await slow() + await never()

        async def main() -> None:
            async with gs.open(sys.argv[1], workflows=[job]) as engine:
                await engine.start(job, id="j-1")
                await engine.serve()
                print("drained")

        asyncio.run(main())
        """
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    args = [sys.executable, "-c", textwrap.dedent(code), sqlite_url, str(witness)]
    process = subprocess.Popen(args, env=environment, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not witness.exists() or "begin" not in witness.read_text():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert "drained" in output and process.returncode == 0
    assert witness.read_text() == "begin\nend\n"
    with gs.open(sqlite_url) as engine:
        types = [event["type"] for event in log_of(engine, "j-1")]
        assert "step.completed" in types and "run.released" in types


def log_of(engine: Any, run: str) -> list[Any]:
    return list(engine.history(run, limit=200)["items"])


def test_step_that_blocks_the_loop_does_not_lose_its_run(url: str, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    @gs.step
    async def rude() -> str:
        calls.append(1)
        time.sleep(3.5)  # blocks the loop for longer than the lease of a worker of a server
        return "done"

    @gs.workflow
    async def job() -> str:
        return await rude()

    unique(job)

    async def main() -> None:
        lease = 3 if url.startswith("http") else None
        async with opened(url, job, lease=lease) as engine:
            run = await engine.start(job, id=new_id())
            assert await run.result(60) == "done"
            assert calls == [1]

    with caplog.at_level("WARNING", logger="goldseam"):
        asyncio.run(main())
    assert "is blocked for" in caplog.text


def test_uvloop_runs_workflows(sqlite_url: str) -> None:
    uvloop = pytest.importorskip("uvloop")

    @gs.step
    async def one() -> int:
        await asyncio.sleep(0)
        return 1

    @gs.workflow
    async def job() -> int:
        return sum(await asyncio.gather(one(), one()))

    async def main() -> None:
        async with opened(sqlite_url, job) as engine:
            assert await (await engine.start(job)).result(60) == 2

    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_notebook_with_a_running_loop_uses_the_blocking_engine(sqlite_url: str) -> None:
    @gs.workflow
    async def job() -> int:
        return 7

    async def cell() -> int:
        with gs.open(sqlite_url, workflows=[job]) as engine:
            return int(engine.start(job).result(60))

    assert asyncio.run(cell()) == 7


def test_second_copy_of_the_package_is_refused(tmp_path: pathlib.Path) -> None:
    done = python(
        """
        import shutil, sys
        import goldseam
        shutil.copytree(sys.argv[1], sys.argv[2] + "/goldseam", ignore=shutil.ignore_patterns("*.so"))
        for name in [name for name in sys.modules if name.startswith("goldseam")]:
            del sys.modules[name]
        sys.path.insert(0, sys.argv[2])
        try:
            import goldseam
        except ImportError as error:
            print("GS0637" in str(error))
        """,
        str(SOURCE),
        str(tmp_path),
    )
    assert done.stdout.strip() == "True", done.stderr


def test_order_of_a_set_in_a_replay_parks_with_both_sides(sqlite_url: str) -> None:
    code = """
        import asyncio, sys, goldseam as gs

        @gs.step
        async def visit(name: str) -> str:
            return name

        @gs.workflow
        async def job() -> int:
            for name in {f"city-{n}" for n in range(50)}:
                await visit.key(name)(name)
            await gs.signal("go")
            return 1

        async def main() -> None:
            async with gs.open(sys.argv[1], workflows=[job]) as engine:
                run = await engine.start(job, id="j-1")
                if sys.argv[2] == "go":
                    await run.signal("go")
                while (await run.status()) not in sys.argv[3:]:
                    await asyncio.sleep(0.01)
                print(await engine.why("j-1"))

        asyncio.run(main())
        """
    first = python(code, sqlite_url, "wait", "waiting", hash_seed="1")
    assert first.returncode == 0, first.stderr
    second = python(code, sqlite_url, "go", "parked", hash_seed="2")
    assert second.returncode == 0, second.stderr
    assert "V1" in second.stdout and "the log has visit:city-" in second.stdout and "the code" in second.stdout


def test_sets_are_written_in_one_order() -> None:
    code = "import goldseam as gs; print(gs.JsonCodec().encode({f'c{n}' for n in range(50)}))"
    assert python(code, hash_seed="1").stdout == python(code, hash_seed="2").stdout
