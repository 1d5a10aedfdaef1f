"""The traps of durable workflows in Python, each with a test."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pytest
from conftest import new_id, opened, status_is, unique

import goldseam as gs

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


def test_more_blocking_steps_than_threads_all_end(url: str) -> None:
    running = [0, 0]
    lock = threading.Lock()

    @gs.step
    def work(number: int) -> int:
        with lock:
            running[0] += 1
            running[1] = max(running)
        time.sleep(0.005)
        with lock:
            running[0] -= 1
        return number

    @gs.workflow
    async def job() -> int:
        return sum(await asyncio.gather(*(work.key(number)(number) for number in range(40))))

    unique(job)

    async def main() -> None:
        async with opened(url, job, step_threads=3) as engine:
            assert await (await engine.start(job, id=new_id())).result(60) == sum(range(40))
            assert running[1] <= 3

    asyncio.run(main())


def test_engine_opens_and_closes_while_the_threads_of_the_loop_are_busy(sqlite_url: str) -> None:
    release = threading.Event()

    @gs.workflow
    async def counts() -> int:
        return int(await gs.remote("count", 3, int, queue="busy"))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        busy = [loop.run_in_executor(None, release.wait, 60) for _ in range(64)]
        async with opened(sqlite_url, counts) as engine:
            serving = asyncio.create_task(engine.serve_tasks({"count": lambda number: number * 2}, queue="busy"))
            assert await (await engine.start(counts)).result(30) == 6
            serving.cancel()
        assert not any(work.done() for work in busy), "the engine waited for them"
        release.set()
        await asyncio.gather(*busy)

    asyncio.run(main())


def test_plain_workflows_do_not_starve_their_steps(url: str) -> None:
    @gs.step
    def work(number: int) -> int:
        return number

    @gs.workflow
    def job(number: int) -> int:
        return int(work(number))

    unique(job)

    async def main() -> None:
        async with opened(url, job, step_threads=1) as engine:
            runs = [await engine.start(job, number, id=new_id()) for number in range(10)]
            assert [await run.result(60) for run in runs] == list(range(10))

    asyncio.run(main())


class Unwritable(Exception):
    """An exception that no serialiser can write."""

    def __init__(self) -> None:
        super().__init__(threading.Lock())

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


def test_exception_without_text_does_not_hide_its_class(url: str) -> None:
    @gs.step
    async def bad() -> None:
        raise Unwritable

    @gs.workflow
    async def job() -> str:
        try:
            await bad()
        except gs.StepFailed as error:
            return f"{error.type_name} {'Traceback' in str(error.traceback_text) or bool(error.traceback_text)}"
        return ""

    unique(job)

    async def main() -> None:
        async with opened(url, job) as engine:
            assert await (await engine.start(job, id=new_id())).result(60) == "Unwritable True"

    asyncio.run(main())


def test_result_that_is_not_json_fails_the_step_with_a_code(url: str) -> None:
    @gs.step(retry=gs.Retry(attempts=3, initial=0.01))
    async def bad() -> Any:
        return object()

    @gs.step
    async def huge() -> str:
        return "x" * 300_000

    @gs.workflow
    async def job() -> list[Any]:
        codes = []
        for step in (bad, huge):
            try:
                await step()
            except gs.StepFailed as error:
                codes.append(error.code)
        return codes

    unique(job)

    async def main() -> None:
        async with opened(url, job) as engine:
            assert await (await engine.start(job, id=new_id())).result(60) == ["GS0634", "GS0102"]

    asyncio.run(main())


def test_divergence_after_a_code_change_parks_with_both_sides(url: str) -> None:
    @gs.step
    async def one() -> int:
        return 1

    @gs.step
    async def other() -> int:
        return 2

    @gs.workflow(name="changing")
    async def before() -> int:
        await one()
        await gs.signal("go")
        return 1

    @gs.workflow(name="changing")
    async def after() -> int:
        await other()
        await gs.signal("go")
        return 2

    unique(before)
    after.name = before.name

    async def main() -> None:
        known = new_id()
        async with opened(url, before) as engine:
            await engine.start(before, id=known)
            await status_is(engine, known, "waiting")
        async with opened(url, after) as engine:
            await engine.signal(known, "go")
            await status_is(engine, known, "parked")
            why = str(await engine.why(known))
            assert "the log has one at place 0 of the workflow, the code calls other" in why

    asyncio.run(main())


def test_file_open_by_another_copy_of_sqlite_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    try:
        with pytest.raises(gs.Error) as caught:
            gs.open(f"sqlite:{path}").__enter__()
        assert caught.value.code == "GS0636"
    finally:
        connection.close()


def test_operation_outside_of_a_workflow_is_refused(sqlite_url: str) -> None:
    with pytest.raises(gs.Misuse) as caught:
        gs.sleep("nap", 1)
    assert caught.value.code == "GS0633"
    seen: list[str] = []

    @gs.step
    async def inside() -> None:
        try:
            gs.sleep("nap", 1)
        except gs.Misuse as error:
            seen.append(error.message)

    @gs.workflow
    async def job() -> None:
        await inside()
        try:
            await asyncio.to_thread(gs.uuid)
        except gs.Misuse as error:
            seen.append(error.message)

    async def main() -> None:
        async with opened(sqlite_url, job) as engine:
            await (await engine.start(job)).result(60)

    asyncio.run(main())
    assert seen == [
        "sleep was called inside of a step",
        "uuid was called from another thread or loop than that of the workflow",
    ]


def test_step_outside_of_a_workflow_is_a_plain_call() -> None:
    @gs.step(retry=5)
    def double(number: int) -> int:
        return number * 2

    @gs.step
    async def triple(number: int) -> int:
        return number * 3

    assert double(4) == 8 and asyncio.run(triple(4)) == 12


def test_gather_under_recovery_replays_each_result_once(url: str) -> None:
    """dbos-transact-py#688: recovery of a workflow with gather never ended."""
    calls: list[str] = []

    @gs.step
    async def fetch(name: str, delay: float) -> str:
        calls.append(name)
        await asyncio.sleep(delay)
        return name

    async def branch(name: str, delay: float) -> list[str]:
        first = await fetch(name, delay)
        second = await fetch(f"{first}2", 0.01 - delay)
        return [first, second]

    @gs.workflow
    async def job() -> list[Any]:
        both = await asyncio.gather(branch("a", 0.01), branch("b", 0.0), branch("c", 0.005))
        await gs.signal("go")
        return list(both)

    unique(job)

    async def main() -> None:
        known = new_id()
        async with opened(url, job) as engine:
            await engine.start(job, id=known)
            await status_is(engine, known, "waiting")
        before = list(calls)
        async with opened(url, job) as engine:
            await engine.signal(known, "go")
            result = await engine.result(known, 60)
        assert result == [["a", "a2"], ["b", "b2"], ["c", "c2"]]
        assert calls == before and len(calls) == 6

    asyncio.run(main())


def test_first_completed_over_tasks_is_recorded_by_select(url: str) -> None:
    """dbos-transact-py#551: asyncio.wait with FIRST_COMPLETED depends on timing; select records the winner."""

    @gs.workflow
    async def job() -> str:
        chosen = await gs.first("race", signals=["left", "right"])
        await gs.signal("go")
        return str(chosen.name)

    unique(job)

    async def main() -> None:
        async with opened(url, job) as engine:
            run = await engine.start(job, id=new_id())
            await run.signal("right")
            await run.signal("left")
            await run.signal("go")
            assert await run.result(60) == "right"

    asyncio.run(main())


def test_evicted_code_runs_finally_but_appends_nothing(url: str) -> None:
    seen: list[str] = []

    @gs.step
    async def clean() -> None:
        seen.append("cleaned")

    @gs.workflow
    async def job() -> str:
        try:
            await gs.signal("go")
            return "gone"
        except Exception:
            seen.append("swallowed")
            raise
        finally:
            seen.append("finally")
            await clean()

    unique(job)

    async def main() -> None:
        async with opened(url, job) as engine:
            run = await engine.start(job, id=new_id())
            await status_is(engine, run.id, "waiting")
            assert "cleaned" not in seen and "swallowed" not in seen
            await run.signal("go")
            assert await run.result(60) == "gone"
            assert seen.count("cleaned") == 1

    asyncio.run(main())


def test_worker_reconnects_when_its_server_restarts(tmp_path: pathlib.Path) -> None:
    """dapr/python-sdk#900: workers stayed dead after the server had gone away."""
    from conftest import free_port, server  # noqa: PLC0415

    @gs.step
    async def work(number: int) -> int:
        await asyncio.sleep(0.05)
        return number

    @gs.workflow
    async def job() -> int:
        return sum([await work(number) for number in range(20)])

    async def main() -> None:
        store, port = f"sqlite:{tmp_path}/s.db", free_port()
        first = server(store, port=port)
        url = first.__enter__()
        async with gs.open(url, workflows=[job], lease=2, drain=2) as engine:
            run = await engine.start(job, id="j-1")
            await status_is(engine, run.id, "running")
            first.__exit__(None, None, None)
            await asyncio.sleep(0)
            with server(store, port=port):
                assert await result_of(engine, run.id) == 190

    asyncio.run(main())


async def result_of(engine: gs.Client, run: str) -> Any:
    while True:
        try:
            return await engine.result(run, 60)
        except gs.Unreachable:
            await asyncio.sleep(0.05)


def test_answers_of_a_newer_server_are_read(url: str) -> None:
    """Version skew: a response may gain fields and events, which this SDK ignores."""
    from goldseam._history import History

    history = History()
    history.add(
        [
            {"seq": 1, "at": 1, "extra": 1, "event": {"type": "run.queued", "data": {"new": True}}},
            {"seq": 2, "at": 2, "event": {"type": "step.invented", "data": {"path": "x"}}},
            {"seq": 3, "at": 3, "event": {"type": "step.completed", "data": {
                "path": "a", "ord": 0, "attempt": 1, "output": 5, "later": {}}}},
        ],
        3,
    )  # fmt: skip
    assert history.ops["a"].output == 5 and list(history.ops) == ["a"]


def test_secrets_do_not_reach_messages(url: str) -> None:
    @gs.step
    async def leak() -> None:
        raise gs.Terminal(f"the bank refused {gs.secret('bank').reveal()}")

    @gs.workflow
    async def job() -> str:
        try:
            await leak()
        except gs.StepFailed as error:
            return error.message
        return repr(gs.secret("bank"))

    unique(job)

    async def main() -> None:
        async with opened(url, job, secrets={"bank": "opensesame"}) as engine:
            run = await engine.start(job, id=new_id())
            assert await run.result(60) == "the bank refused [secret]"
            assert "opensesame" not in str(await run.history(limit=100))

    asyncio.run(main())


def test_probe_decides_after_a_crash_in_a_step(sqlite_url: str, tmp_path: pathlib.Path) -> None:
    code = """
        import asyncio, os, sys, goldseam as gs

        @gs.step(at_most_once=True)
        async def pay() -> str:
            if sys.argv[2] == "die":
                os.kill(os.getpid(), 9)
            return "again"

        @pay.probe
        async def find() -> gs.Done[str] | gs.NotDone:
            return gs.Done("found")

        @gs.step(at_most_once=True)
        async def blind() -> str:
            if sys.argv[2] == "die2":
                os.kill(os.getpid(), 9)
            return "again"

        @gs.workflow
        async def job() -> str:
            paid = await pay()
            try:
                return paid + await blind()
            except gs.StepFailed as error:
                return f"{paid} {error.code}"

        async def main() -> None:
            async with gs.open(sys.argv[1], workflows=[job]) as engine:
                print(await (await engine.start(job, id="j-1")).result(60))

        asyncio.run(main())
        """
    assert python(code, sqlite_url, "die").returncode == -9
    assert python(code, sqlite_url, "die2").returncode == -9
    done = python(code, sqlite_url, "live")
    assert done.stdout.strip() == "found outcome-unknown", done.stderr


def test_two_engines_on_one_loop_share_the_task_factory(tmp_path: pathlib.Path) -> None:
    @gs.step
    async def leg(name: str) -> str:
        await asyncio.sleep(0.001)
        return name

    async def trip(name: str) -> list[str]:
        return [await leg(name), await leg(name + "!")]

    @gs.workflow
    async def job() -> list[Any]:
        return list(await asyncio.gather(trip("a"), trip("b")))

    async def main() -> None:
        before = asyncio.get_running_loop().get_task_factory()
        async with opened(f"sqlite:{tmp_path}/b.db", job) as second:
            async with opened(f"sqlite:{tmp_path}/a.db", job) as first:
                assert await (await first.start(job)).result(60) == [["a", "a!"], ["b", "b!"]]
            run = await second.start(job)
            assert await run.result(60) == [["a", "a!"], ["b", "b!"]]
            assert "trip~/leg" in str(await run.history(limit=100))
        assert asyncio.get_running_loop().get_task_factory() is before

    asyncio.run(main())
