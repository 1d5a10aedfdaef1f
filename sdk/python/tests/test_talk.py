"""Published values, requests, signals between runs, options of children and starts, and traces, on both transports."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import pathlib
import re
from typing import Any

import pytest
from conftest import new_id, opened, status_is, unique, until

import goldseam as gs
from goldseam._client import Client
from goldseam._talk import within
from goldseam._verbs import StoreVerbs
from goldseam.testing import Tester
from test_protocol import VECTORS


def test_published_values_are_read_without_waking_the_run(url: str) -> None:
    @gs.workflow
    async def bakes() -> int:
        for percent in (50, 50, 100):
            await gs.publish("percent", percent)
        await gs.publish("note", {"text": "warm"})
        await gs.signal("go")
        return 1

    unique(bakes)

    async def main() -> None:
        async with opened(url, bakes) as engine:
            run = await engine.start(bakes, id=new_id())
            await status_is(engine, run.id, "waiting")
            assert await run.published("percent", int) == 100
            assert await run.published("nothing", default=7) == 7
            with pytest.raises(gs.Problem) as caught:
                await run.published("nothing")
            assert caught.value.code == "GS0168"
            values = (await engine.published_values(run.id))["items"]
            assert {item["name"]: item["value"] for item in values} == {"percent": 100, "note": {"text": "warm"}}
            await run.signal("go")
            assert await run.result(60) == 1

    asyncio.run(main())


def test_value_that_cannot_be_published_is_refused_in_every_replay(url: str) -> None:
    @gs.workflow
    async def boasts() -> str:
        try:
            await gs.publish("all", "x" * 70_000)
        except gs.Misuse as error:
            await gs.publish("why", error.code)
        await gs.signal("go")
        return "modest"

    unique(boasts)

    async def main() -> None:
        async with opened(url, boasts) as engine:
            run = await engine.start(boasts, id=new_id())
            await status_is(engine, run.id, "waiting")
            await run.signal("go")
            assert await run.result(60) == "modest"
            assert await run.published("why") == "GS0167"

    asyncio.run(main())


def test_requests_are_answered_and_refused(url: str) -> None:
    @gs.workflow
    async def counter() -> int:
        total = 0
        async for request in gs.requests("add", int):
            if request.value < 0:
                await request.refuse("negative")
                continue
            total += request.value
            await request.answer(total)
            if total > 10:
                return total
        return 0

    unique(counter)

    async def main() -> None:
        async with opened(url, counter) as engine:
            run = await engine.start(counter, id=new_id())
            assert await run.request("add", 4, int, timeout=60) == 4
            with pytest.raises(gs.Problem) as caught:
                await run.request("add", -1, timeout=60)
            assert caught.value.code == "GS0170" and "negative" in str(caught.value)
            with pytest.raises(gs.Problem) as misfit:
                await run.request("add", "many", timeout=60)
            assert misfit.value.code == "GS0170"
            assert await run.request("add", 3, id="three", timeout=60) == 7
            assert await run.request("add", 3, id="three", timeout=60) == 7
            assert await run.request("add", 5, timeout=60) == 12
            assert await run.result(60) == 12
            with pytest.raises(gs.Problem):
                await run.request("add", 1, timeout=60)

    asyncio.run(main())


def test_select_takes_requests_and_signals(url: str) -> None:
    @gs.workflow
    async def either() -> list[Any]:
        seen: list[Any] = []
        while True:
            found = await gs.select("next", requests={"add": int}, signals={"stop": str}, timeout=60)
            if found.kind == "request":
                seen.append(found.value.value)
                await found.value.answer(len(seen))
            else:
                return [*seen, found.name, found.value]

    unique(either)

    async def main() -> None:
        async with opened(url, either) as engine:
            run = await engine.start(either, id=new_id())
            assert await run.request("add", 5, timeout=60) == 1
            with pytest.raises(gs.Problem):
                await run.request("add", "six", timeout=60)
            assert await run.request("add", 6, timeout=60) == 2
            await run.signal("stop", "now")
            assert await run.result(60) == [5, 6, "stop", "now"]

    asyncio.run(main())


def test_a_run_signals_another_run_once(url: str) -> None:
    @gs.workflow
    async def listens() -> str:
        return await gs.signal("word", str)

    @gs.workflow
    async def speaks(other: str) -> str:
        await gs.signal_run(other, "word", "hello")
        try:
            await gs.signal_run("missing-run", "word")
        except gs.StepFailed as error:
            return str(error.code)
        return ""

    unique(listens, speaks)

    async def main() -> None:
        async with opened(url, listens, speaks) as engine:
            first = await engine.start(listens, id=new_id())
            second = await engine.start(speaks, first.id, id=new_id())
            assert await first.result(60) == "hello"
            assert (await second.result(60)).startswith("GS0")
            sent = [event for event in (await first.history())["items"] if event["type"] == "signal.received"]
            assert len(sent) == 1

    asyncio.run(main())


def test_children_have_options_and_may_outlive_their_parent(url: str) -> None:
    @gs.workflow
    async def packs(weight: int) -> int:
        return weight + 1

    @gs.workflow
    async def waits_long() -> str:
        return await gs.signal("go", str)

    undone: list[int] = []

    async def unpack(result: int) -> None:
        undone.append(result)

    @gs.workflow
    async def ships(child: str) -> None:
        assert await gs.child("pack", packs, 1, id=f"{child}-a", tags={"size": "large"}, priority=3, undo=unpack) == 2
        handle = await gs.start_child("survey", waits_long, id=f"{child}-b", detached=True)
        with pytest.raises(gs.Misuse):
            handle.result()
        raise gs.Terminal("no ship")

    unique(packs, waits_long, ships)

    async def main() -> None:
        async with opened(url, packs, waits_long, ships) as engine:
            known = new_id("c")
            run = await engine.start(ships, known, id=new_id())
            with pytest.raises(gs.RunFailed, match="no ship"):
                await run.result(60)
            assert undone == [2]
            assert (await engine.show(f"{known}-a"))["tags"] == {"size": "large"}
            await engine.signal(f"{known}-b", "go", "on")
            assert await engine.result(f"{known}-b", 60) == "on"

    asyncio.run(main())


def test_two_waits_for_one_child_are_one_operation(url: str) -> None:
    @gs.workflow
    async def leaf() -> int:
        await gs.sleep("nap", 0.01)
        return 5

    @gs.workflow
    async def tree() -> list[int]:
        handle = await gs.start_child("leaf", leaf)
        return list(await asyncio.gather(handle.result(), handle.result()))

    unique(leaf, tree)

    async def main() -> None:
        async with opened(url, leaf, tree) as engine:
            assert await (await engine.start(tree, id=new_id())).result(60) == [5, 5]

    asyncio.run(main())


def test_workflow_called_in_a_workflow_gets_its_own_arguments(url: str) -> None:
    @gs.workflow
    async def inner(id: str, queue: str = "q") -> list[str]:
        return [id, queue]

    @gs.workflow
    async def outer() -> Any:
        return await inner(id="x", queue="y")

    unique(inner, outer)

    async def main() -> None:
        async with opened(url, inner, outer) as engine:
            assert await (await engine.start(outer, id=new_id())).result(60) == ["x", "y"]

    asyncio.run(main())


def test_starts_have_timeouts_delays_and_lanes(url: str) -> None:
    undone: list[str] = []

    @gs.step
    async def book() -> str:
        return "booked"

    @book.undo
    async def unbook(result: str) -> None:
        undone.append(result)

    @gs.workflow
    async def late() -> None:
        await book()
        await gs.signal("never")

    @gs.workflow
    async def at() -> float:
        return gs.now().timestamp()

    unique(late, at)

    async def main() -> None:
        async with opened(url, late, at) as engine:
            run = await engine.start(late, id=new_id(), timeout=0.3)
            with pytest.raises(gs.RunFailed) as caught:
                await run.result(60)
            assert caught.value.code == "timeout" and undone == ["booked"]
            begin = dt.datetime.now(dt.timezone.utc) + dt.timedelta(milliseconds=300)
            lane = new_id("lane")
            later = await engine.start(at, id=new_id(), start_at=begin, lane=lane)
            soon = await engine.start(at, id=new_id(), delay=0.01, lane=lane)
            assert await later.result(60) > 0 and await soon.result(60) > 0
            started = [e for e in (await later.history())["items"] if e["type"] == "run.claimed"]
            assert started[0]["at"] >= begin.timestamp() * 1000 - 1
            with pytest.raises(gs.Problem) as refused:
                await engine.start(at, id=new_id(), delay=1, start_at=begin)
            assert refused.value.code == "GS0160"
            with pytest.raises(gs.Misuse):
                await engine.start(at, id=new_id(), deadline=dt.datetime(2030, 1, 1))

    asyncio.run(main())


def test_remote_step_is_undone_and_has_a_lane(url: str) -> None:
    undone: list[Any] = []

    async def give_back(result: int) -> None:
        undone.append(result)

    queue = new_id("q")

    @gs.workflow
    async def borrow() -> None:
        await gs.remote("take", 3, int, queue=queue, lane="one", undo=give_back)
        raise gs.Terminal("changed my mind")

    unique(borrow)

    async def main() -> None:
        async with opened(url, borrow) as engine:
            serving = asyncio.create_task(engine.serve_tasks({"take": lambda payload: payload * 2}, queue=queue))
            run = await engine.start(borrow, id=new_id())
            with pytest.raises(gs.RunFailed):
                await run.result(60)
            assert undone == [6]
            serving.cancel()

    asyncio.run(main())


def test_spans_are_those_of_the_vectors() -> None:
    vectors = json.loads((VECTORS / "trace.json").read_text())
    trace = {"traceparent": vectors["traceparent"]}
    for span in vectors["spans"]:
        if "path" in span:
            key = gs._paths.idempotency_key(span["run"], span["generation"], span["path"])  # type: ignore[attr-defined]
            assert within(trace, key).traceparent.split("-")[2] == span["span"]


def test_steps_know_the_trace_of_their_run(url: str) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"

    @gs.step
    def inside() -> Any:
        found = gs.trace_context()
        return None if found is None else found.headers()

    @gs.workflow
    async def traced() -> list[Any]:
        found = gs.trace_context()
        return [None if found is None else found.traceparent, await inside()]

    unique(traced)

    async def main() -> None:
        async with opened(url, traced) as engine:
            headers = {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01", "tracestate": "vendor=1"}
            run = await engine.start(traced, id=new_id(), trace=headers)
            of_run, of_step = await run.result(60)
            assert trace_id in of_run and trace_id in of_step["traceparent"] and of_step["tracestate"] == "vendor=1"
            assert len({headers["traceparent"], of_run, of_step["traceparent"]}) == 3
            assert await (await engine.start(traced, id=new_id())).result(60) == [None, None]

    asyncio.run(main())


def test_conversation_survives_every_crash(goldseam: Tester) -> None:
    @gs.workflow
    async def leaf(number: int) -> int:
        return number * 2

    async def uproot(result: int) -> None:
        goldseam.did("uproot", gs.idempotency_key())

    @gs.workflow
    async def talks() -> None:
        await gs.publish("state", "begun")
        await gs.publish("state", "begun")
        grown = await gs.child("leaf", leaf, 4, undo=uproot)
        await gs.publish("state", grown)
        assert await gs.signal("word", str) == "go"
        raise gs.Terminal(f"over {grown}")

    report = goldseam.every_crash(talks, signals=[("word", "go")], also=[leaf])
    assert report.outcome.message == "over 8" and report.most["uproot"] >= 1


#: Routes that are not for programs with runs: the protocol of workers, keys of a server, and its own pages.
NOT_FOR_CLIENTS = re.compile(r"/v1/(workers|executions|keys|pass$|passes|callbacks|codes|openapi)|/(healthz|readyz|metrics)$")


def test_client_has_every_route_of_the_api() -> None:
    root = pathlib.Path(gs.__file__).resolve().parent
    source = (root / "_client.py").read_text() + (root / "_verbs.py").read_text()
    known = {re.sub(r"\{[^}]*\}", "*", path) for path in re.findall(r'"(/v1/[^"?]*)"', source)}
    known |= {f"/v1/runs/*/{what}" for what in re.findall(r'(?:_command\(run|_of\(run), f?"([^"]+)"', source)}
    known = {re.sub(r"\{[^}]*\}", "*", path) for path in known}
    description = json.loads((VECTORS.parent / "openapi.json").read_text())
    for path in description["paths"]:
        if not NOT_FOR_CLIENTS.search(path):
            assert re.sub(r"\{[^}]*\}", "*", path) in known | {"/v1/runs/*"}, path


def test_blocking_engine_has_every_method_of_the_client() -> None:
    for kind, blocking in ((Client, gs.BlockingEngine), (StoreVerbs, gs.BlockingEngine), (gs.RunHandle, gs.BlockingRun)):
        for name, member in vars(kind).items():
            if not name.startswith("_") and callable(member):
                assert hasattr(blocking, name), f"{blocking.__name__} has no {name}"


def test_blocking_engine_follows_and_talks(sqlite_url: str) -> None:
    @gs.workflow
    def plain() -> int:
        gs.publish("here", 1)
        request = gs.requests("add", int).next()
        request.answer(request.value + 1)
        return 3

    with gs.open(sqlite_url, workflows=[plain], drain=2) as engine:
        run = engine.start(plain, id="p-1")
        assert run.request("add", 1, timeout=60) == 2 and run.result(60) == 3
        assert [event["type"] for event in run.events()][-1] == "run.completed"
        assert engine.published("p-1", "here") == 1
        assert engine.groups("status")["total"] == 1 and engine.operate("retry", "status = failed", dry_run=True)["matched"] == 0


def test_operations_act_on_many_runs(url: str) -> None:
    @gs.workflow
    async def sits(number: int) -> int:
        return int(await gs.signal("go", int)) + number

    unique(sits)

    async def main() -> None:
        async with opened(url, sits) as engine:
            mark = new_id("m")
            runs = [await engine.start(sits, number, id=new_id(), attributes={"mark": mark}) for number in range(3)]
            for run in runs:
                await status_is(engine, run.id, "waiting")
            where = f'mark = "{mark}"'
            assert (await engine.operate("signal", where, dry_run=True, signal="go"))["would_act"] == 3
            begun = await engine.operate("signal", where, signal="go", payload=10, reason="test")
            assert [await run.result(60) for run in runs] == [10, 11, 12]

            async def ended() -> bool:
                return bool((await engine.operation(begun["id"]))["status"] == "completed")

            await until(ended)
            assert begun["id"] in str(await engine.operations())

    asyncio.run(main())
