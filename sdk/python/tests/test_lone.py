"""Lone appends: the task of the workflow sends them itself, and nothing changes but the time that they take."""

from __future__ import annotations

import asyncio
from typing import Any

import goldseam as gs
from goldseam import _lone
from goldseam._embedded import NativeTransport
from goldseam.testing import Tester

COUNT = 30


@gs.step
async def add_one(number: int) -> int:
    return number + 1


@gs.workflow
async def chain(count: int) -> int:
    total = 0
    for _ in range(count):
        total = await add_one(total)
    return total


@gs.workflow
async def fan(count: int) -> list[int]:
    return await asyncio.gather(*(add_one.key(number)(number) for number in range(count)))


class Counted(NativeTransport):
    """Counts appends by the way in which they are sent."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.sent = 0
        self.begun = 0
        #: Lone appends whose response is withheld from the workflow, by number.
        self.lost: set[int] = set()

    async def send(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        self.sent += path == _lone.APPEND
        return await super().send(method, path, *args, **kwargs)

    def begin(self, path: str, body: Any) -> Any:
        self.begun += 1
        answer = super().begin(path, body)
        if self.begun in self.lost:
            raise gs.Unreachable("the response was lost")
        return answer


def step_paths(history: list[dict[str, Any]]) -> list[str]:
    return [entry["data"]["path"] for entry in history if entry["type"] == "step.completed"]


async def run_chain(transport: Counted) -> list[str]:
    async with gs.open("memory:", workflows=[chain], transport=transport) as engine:
        run = await engine.start(chain, COUNT)
        assert await run.result(60) == COUNT
        return step_paths([entry async for entry in run.events()])


def test_lone_steps_are_appended_without_the_driver() -> None:
    async def main() -> None:
        transport = Counted("memory:")
        paths = await run_chain(transport)
        assert len(paths) == len(set(paths)) == COUNT
        # The output of the run is appended by the driver.
        assert transport.begun == COUNT and transport.sent <= 2

    asyncio.run(main())


def test_lone_append_without_a_response_is_repeated_once() -> None:
    async def main() -> None:
        transport = Counted("memory:")
        transport.lost = {1, 7, COUNT}
        paths = await run_chain(transport)
        assert len(paths) == len(set(paths)) == COUNT

    asyncio.run(main())


def test_steps_side_by_side_share_appends() -> None:
    async def main() -> None:
        transport = Counted("memory:")
        async with gs.open("memory:", workflows=[fan], transport=transport) as engine:
            assert await (await engine.start(fan, COUNT)).result(60) == [number + 1 for number in range(COUNT)]
        assert transport.begun + transport.sent < COUNT / 2

    asyncio.run(main())


def test_loop_serves_other_tasks_between_lone_steps() -> None:
    async def main() -> None:
        turns = 0
        ended = asyncio.Event()

        async def other() -> None:
            nonlocal turns
            while not ended.is_set():
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(other())
        await run_chain(Counted("memory:"))
        ended.set()
        await beside
        assert turns >= COUNT

    asyncio.run(main())


def test_cancel_reaches_a_run_of_lone_steps() -> None:
    async def main() -> None:
        @gs.workflow
        async def endless() -> None:
            while True:
                await add_one(1)

        async with gs.open("memory:", workflows=[endless]) as engine:
            run = await engine.start(endless)
            await run.cancel()
            try:
                await run.result(60)
            except gs.RunFailed as failed:
                assert "cancel" in str(failed).lower()
            else:
                raise AssertionError("the run ended")

    asyncio.run(main())


def test_slow_appends_are_not_lone_for_a_while() -> None:
    class Owner:
        transport = type("Embedded", (), {"embedded": True})()

    lone = _lone.LoneAppends(Owner())  # type: ignore[arg-type]
    for _ in range(_lone.SLOW_MAX - 1):
        lone._took(2 * _lone.SLOW, now=10.0)
    assert lone._paused_until < 10.0
    lone._took(0.0, now=10.0)
    lone._took(2 * _lone.SLOW, now=10.0)
    assert lone._paused_until < 10.0, "a fast append ends the succession"
    lone._took(2 * _lone.VERY_SLOW, now=10.0)
    assert lone._paused_until > 10.0 + _lone.VERY_SLOW * _lone.PAUSE_FACTOR


def test_lone_steps_survive_a_crash_before_and_after_every_append(goldseam: Tester) -> None:
    report = goldseam.every_crash(chain, 4)
    assert report.outcome == 4 and report.appends >= 4


def test_result_of_a_run_in_this_process_is_not_a_long_poll() -> None:
    """A long poll would be woken by each append, and read the run again."""

    class Polls(Counted):
        waits = 0
        looks = 0

        async def send(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
            if "/result" in path:
                self.looks += path.endswith("wait_ms=0")
                self.waits += not path.endswith("wait_ms=0")
            return await super().send(method, path, *args, **kwargs)

    async def main() -> None:
        transport = Polls("memory:")
        async with gs.open("memory:", workflows=[chain], transport=transport) as engine:
            results = [(await engine.start(chain, COUNT)).result(60) for _ in range(3)]
            assert await asyncio.gather(*results) == [COUNT] * 3
            assert transport.looks < COUNT and transport.waits <= 3
            assert engine.worker is not None and engine.worker.watchers._waiting == {}

    asyncio.run(main())


def test_result_of_a_run_that_is_ended_from_elsewhere_arrives() -> None:
    hanging = asyncio.Event()

    @gs.step
    async def hang() -> None:
        hanging.set()
        await asyncio.sleep(3600)

    @gs.workflow
    async def hangs() -> None:
        await hang()

    async def main() -> None:
        async with gs.open("memory:", workflows=[hangs], drain=0) as engine:
            run = await engine.start(hangs)
            waiting = asyncio.create_task(run.result(60))
            await hanging.wait()
            await engine.terminate(run.id, "enough")
            (ended,) = await asyncio.wait_for(asyncio.gather(waiting, return_exceptions=True), 10)
            assert isinstance(ended, gs.RunFailed) and "enough" in str(ended)

    asyncio.run(main())
