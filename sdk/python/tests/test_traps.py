"""The traps of durable workflows in Python, each with a test."""

from __future__ import annotations

import asyncio
import pathlib
import sqlite3
import threading
import time
from typing import Any

import pytest
from conftest import Server, free_port, new_id, opened, python, server, status_is, unique

import goldseam as gs
from goldseam._worker import Worker


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


def test_worker_that_the_server_forgot_registers_and_claims_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a growing pause after it had registered, a worker of a server that restarted often claimed nothing."""
    requests: list[str] = []
    pauses: list[float] = []

    class Forgetful:
        embedded = False

        def request(self, method: str, path: str, *_: Any, **__: Any) -> Any:
            requests.append(path.rpartition("/")[2])
            if path == "/v1/workers":
                return {"worker": f"w-{len(requests)}", "lease_ms": 10_000, "now": 0}
            if len(requests) > 12:
                raise gs.Closed("the test is over")
            raise gs.Problem("not registered", code="GS0311")

    monkeypatch.setattr("goldseam._worker.time.sleep", pauses.append)
    worker: Any = Worker(Forgetful(), [], codec=gs.JsonCodec())  # type: ignore[arg-type]
    worker._on_loop = lambda *_: True
    worker._claiming()
    assert requests == ["claim", "workers"] * 6 + ["claim"] and pauses == []


def test_worker_waits_for_a_server_that_starts_later(tmp_path: pathlib.Path) -> None:
    @gs.workflow
    async def job() -> int:
        return 5

    async def main() -> None:
        there = Server(f"sqlite:{tmp_path}/s.db")
        starting = asyncio.get_running_loop().run_in_executor(None, there.start)
        try:
            async with gs.open(there.url, workflows=[job], drain=2) as engine:
                assert await result_of(engine, (await engine.start(job, id="j-1")).id) == 5
        finally:
            await starting
            there.kill()

    asyncio.run(main())


def test_worker_of_a_server_that_is_gone_ends_with_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goldseam._worker.PATIENCE", 0.0)

    @gs.workflow
    async def job() -> int:
        return 5

    async def main() -> None:
        with pytest.raises(gs.Unreachable, match="check that the server runs and that the URL is right"):
            async with gs.open(f"http://127.0.0.1:{free_port()}", workflows=[job]):
                pass
        assert asyncio.get_running_loop().get_task_factory() is None

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
