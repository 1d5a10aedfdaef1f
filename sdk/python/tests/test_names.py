"""Every name of the package does what its documentation says; a name without a test is found."""

from __future__ import annotations

import asyncio
import datetime as dt
import pathlib
import re
import types
from typing import Any

import pytest
from conftest import new_id, opened, status_is, unique

import goldseam as gs

#: Names of types that only annotations need.
TYPES = {"Attempt", "ChildHandle", "Codec", "IncomingRequest", "Opening", "Requests", "Selected", "Step", "TraceContext", "Workflow"}


def test_every_name_has_a_test() -> None:
    source = "".join(path.read_text() for path in pathlib.Path(__file__).parent.rglob("*.py"))
    missing = [name for name in gs.__all__ if name not in TYPES and not re.search(rf"\bgs\.{name}\b", source)]
    assert missing == []


def test_every_method_of_the_client_has_a_test() -> None:
    source = "".join(path.read_text() for path in pathlib.Path(__file__).parent.rglob("*.py"))
    methods = {name for kind in gs.Client.__mro__ for name, member in vars(kind).items() if isinstance(member, types.FunctionType)}
    missing = [name for name in sorted(methods) if not name.startswith("_") and not re.search(rf"\.{name}\(", source)]
    assert missing == []


def test_chance_and_facts_of_the_run_are_the_same_in_every_replay(url: str) -> None:
    seen: list[tuple[Any, ...]] = []

    @gs.step
    async def inside() -> list[Any]:
        return [gs.run_id(), gs.in_workflow()]

    @gs.workflow(version=3)
    async def facts() -> list[Any]:
        replaying = gs.is_replaying()
        seen.append((gs.random().random(), gs.random().random(), str(gs.uuid()), gs.now(), gs.run_id(), gs.version(), gs.in_workflow()))
        found = await inside()
        await gs.signal("go")
        return [*found, replaying]

    unique(facts)

    async def main() -> None:
        known = new_id()
        async with opened(url, facts, linger=0) as engine:
            run = await engine.start(facts, id=known)
            await status_is(engine, run.id, "waiting")
            await run.signal("go")
            assert await run.result(60) == [known, False, True], "the second call of the function replayed"
        assert len(seen) == 2 and seen[0] == seen[1]
        assert seen[0][0] != seen[0][1] and seen[0][4:] == (known, 3, True)
        assert not gs.in_workflow()

    asyncio.run(main())


def test_functions_without_a_decorator_and_named_arms_are_steps(url: str) -> None:
    undone: list[int] = []

    def plain(number: int, *, more: int = 0) -> int:
        return number + more

    async def on_the_loop(number: int) -> int:
        return number * 10

    async def give_back(number: int) -> None:
        undone.append(number)

    async def part(number: int) -> int:
        return int(await gs.run_function("work", on_the_loop, number))

    @gs.workflow
    async def parts(fail: bool) -> list[int]:
        first = await gs.run_function("plain", plain, 1, more=2, key="k", retry=2, undo=give_back)
        both = await asyncio.gather(gs.arm("left", part, 1), gs.arm("right", part, 2, key="r"))
        if fail:
            raise gs.Terminal("no")
        return [first, *both]

    unique(parts)

    async def main() -> None:
        async with opened(url, parts) as engine:
            run = await engine.start(parts, False, id=new_id())
            assert await run.result(60) == [3, 10, 20]
            paths = {event["data"]["path"] for event in (await run.history())["items"] if event["type"] == "step.completed"}
            assert paths == {"plain:k", "left~/work", "right:r~/work"}
            with pytest.raises(gs.RunFailed, match="no"):
                await (await engine.start(parts, True, id=new_id())).result(60)
            assert undone == [3]

    asyncio.run(main())


def test_classes_of_failures_decide_about_retries(url: str) -> None:
    calls: list[str] = []

    @gs.register_exception
    class OutOfStock(Exception):
        pass

    @gs.step(retry=gs.Retry.fixed(0.01, attempts=3))
    async def fails(kind: str) -> int:
        calls.append(kind)
        if kind == "registered":
            raise OutOfStock("no pens")
        raise {"retryable": gs.Retryable, "terminal": gs.Terminal, "unknown": gs.Unknown}[kind](kind)

    @gs.workflow
    async def catches(kind: str) -> str:
        try:
            await fails.key(kind)(kind)
        except OutOfStock as error:
            return f"out of stock: {error}"
        except gs.StepFailed as error:
            assert isinstance(error, gs.Failed)
            return f"{error.path}: {error.klass}"
        return "none"

    unique(catches)

    async def main() -> None:
        async with opened(url, catches) as engine:
            found = {}
            for kind in ("retryable", "terminal", "unknown", "registered"):
                found[kind] = await (await engine.start(catches, kind, id=new_id())).result(60)
            assert found == {
                "retryable": "fails:retryable: retryable",
                "terminal": "fails:terminal: terminal",
                "unknown": "fails:unknown: unknown",
                "registered": "out of stock: no pens",
            }
            assert [calls.count(kind) for kind in ("retryable", "terminal", "registered")] == [3, 1, 3]

    asyncio.run(main())


def test_heartbeats_carry_details_and_attributes_are_removed(url: str) -> None:
    seen: list[Any] = []

    @gs.step(retry=gs.Retry.fixed(0.01, attempts=2), heartbeat_timeout=30)
    async def beats() -> int:
        seen.append(gs.attempt().last_heartbeat())
        gs.heartbeat({"page": gs.attempt().number})
        if gs.attempt().number == 1:
            raise gs.Retryable("again")
        return 5

    @gs.workflow
    async def works() -> int:
        await gs.set_attribute("page", 1)
        await gs.set_attribute("kept", 2)
        await gs.remove_attribute("page")
        await gs.sleep_until("soon", gs.now() + dt.timedelta(milliseconds=20))
        return await beats()

    unique(works)

    async def main() -> None:
        async with opened(url, works) as engine:
            run = await engine.start(works, id=new_id())
            assert await run.result(60) == 5 and seen == [None, {"page": 1}]
            assert (await run.show())["attributes"] == {"kept": 2}

    asyncio.run(main())


def test_cancelled_code_cleans_up_and_hides_its_secrets(sqlite_url: str) -> None:
    cleaned: list[str] = []

    @gs.workflow
    async def waits() -> int:
        try:
            return int(await gs.signal("never", int))
        except gs.Cancelled:
            cleaned.append(gs.secret("token").reveal())
            raise

    async def main() -> None:
        async with opened(sqlite_url, waits, secrets={"token": gs.Secret("s3cret-value")}) as engine:
            run = await engine.start(waits, id="w-1")
            await status_is(engine, run.id, "waiting")
            await run.cancel("enough")
            with pytest.raises(gs.RunFailed) as ended:
                await run.result(60)
            assert ended.value.status == "cancelled" and cleaned == ["s3cret-value"]
            assert "s3cret-value" not in repr(gs.Secret("s3cret-value"))

    asyncio.run(main())
