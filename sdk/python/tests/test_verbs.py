"""Every verb of the client that no other test calls, on both transports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import new_id, opened, status_is, unique, until

import goldseam as gs


@gs.step
async def fetch(number: int) -> int:
    return number + 1


def test_verbs_of_one_run(url: str) -> None:
    @gs.workflow
    async def asks(number: int) -> int:
        found = await fetch(number)
        return found if await gs.ask("approve", "Go on?", bool) else 0

    unique(asks)

    async def main() -> None:
        async with opened(url, asks) as engine:
            run = await engine.start(asks, 1, id=new_id())
            await engine.question(run.id, "approve", timeout=60)
            assert (await engine.show_question(run.id, "approve"))["prompt"] == "Go on?"
            await engine.note(run.id, "looked at it", by="me")
            assert "looked at it" in str(await run.history())
            await engine.pause(run.id, "hold")
            await status_is(engine, run.id, "paused")
            await engine.resume(run.id)
            await status_is(engine, run.id, "waiting")
            assert (await engine.remedies(run.id))["items"] == []
            with pytest.raises(gs.Problem, match="rule O1 does not apply"):
                await engine.recover(run.id, "O1", dry_run=True)
            made = await engine.create_pass(run.id, answer="approve", valid_for=60)
            assert made["pass"]
            await engine.reset(run.id, "over again")
            await engine.question(run.id, "approve", timeout=60)
            await engine.jump(run.id, "fetch", input=None)
            await engine.question(run.id, "approve", timeout=60)
            branches = [branch["branch"] for branch in (await engine.branches(run.id))["items"]]
            assert len(branches) == 3
            assert await engine.diff(run.id, branches[0], branches[2]) is not None
            seen = []

            async def follow() -> None:
                async for event in engine.follow(run.id):
                    seen.append(event["type"])

            following = asyncio.create_task(follow())
            await run.answer("approve", True)
            assert await run.result(60) == 2
            await asyncio.wait_for(following, 60)
            assert seen[0] == "run.queued" and seen[-1] == "run.completed"

    asyncio.run(main())


def test_requests_are_withdrawn_and_refusals_have_codes(url: str) -> None:
    @gs.workflow(name="moves")
    async def first(number: int) -> int:
        return int(await gs.signal("go", int)) + number

    @gs.workflow(name="moves", version=2)
    async def second(number: int) -> int:
        return int(await gs.signal("go", int)) + number * 100

    unique(first)
    second.name = first.name

    async def main() -> None:
        async with opened(url, first, second) as engine:
            run = await engine.start(first, 2, id=new_id())
            await status_is(engine, run.id, "waiting")
            await engine.migrate(run.id, 2, "new prices")
            await engine.requeue(run.id, "look again")
            await run.signal("go", 1)
            assert await run.result(60) == 201
            none = new_id("none")
            refused: dict[str, Any] = {
                "withdraw": lambda: engine.withdraw(run.id, "cancel"),
                "undo_recovery": lambda: engine.undo_recovery(run.id),
                "lock": lambda: engine.lock(none),
                "task": lambda: engine.task(none),
                "operation": lambda: engine.operation(none),
                "show": lambda: engine.show(none),
                "result": lambda: engine.result(none),
                "show_question": lambda: engine.show_question(run.id, "none"),
                "question": lambda: engine.question(none),
                "answer": lambda: engine.answer(none, "approve", True),
                "signal": lambda: engine.signal(none, "go"),
            }
            found = {}
            for name, call in refused.items():
                try:
                    found[name] = str(await call())
                except gs.Problem as problem:
                    assert problem.message and (problem.code or problem.hint), name
                    continue
            assert found == {}, "these were not refused"

    asyncio.run(main())


def test_tasks_and_locks(url: str) -> None:
    async def main() -> None:
        async with opened(url) as engine:
            queue = new_id("q")

            async def claimed(worker: str) -> Any:
                (item,) = (await engine.claim_tasks(worker, queue=queue))["items"]
                return item["task"]["id"], item["token"]

            made = await engine.submit_task("mail", {"to": 1}, queue=queue, attempts_max=1)
            assert queue in str(await engine.queue_stats())
            name, token = await claimed("a")
            assert name == made["id"] and (await engine.task(name))["kind"] == "mail"
            await engine.heartbeat_task(name, token, {"page": 1})
            await engine.release_task(name, token)
            name, token = await claimed("b")
            await engine.fail_task(name, token, {"class": "terminal", "message": "no such address"})
            assert "no such address" in str(await engine.task(name))
            other = await engine.submit_task("mail", None, queue=queue)
            await engine.cancel_task(other["id"])
            assert (await engine.claim_tasks("c", queue=queue))["items"] == []
            assert [task["id"] for task in (await engine.tasks(queue=queue))["items"]]
            lock = await engine.acquire_lock(new_id("lock"), "me", ttl=60)
            assert (await engine.lock(lock["name"]))["holder"] == "me"
            assert lock["name"] in str(await engine.locks())
            assert lock["name"] not in str(await engine.stale_locks())

    asyncio.run(main())


def test_verbs_of_many_runs(sqlite_url: str) -> None:
    @gs.workflow
    async def fails() -> int:
        raise gs.Terminal("out of stock")

    async def main() -> None:
        async with opened(sqlite_url, fails) as engine:
            runs = [await engine.start(fails, id=f"f-{number}") for number in range(3)]
            for run in runs:
                await status_is(engine, run.id, "failed")
            assert "out of stock" in str(await engine.failures(where="status = failed"))
            assert "fails" in str(await engine.workflows())
            assert (await engine.sweep(dry_run=True))["healed"] == 0
            begun = await engine.operate("retry", "status = failed", rate="1/h", reason="slow")
            await engine.pause_operation(begun["id"], "wait")
            await engine.resume_operation(begun["id"])
            await engine.stop_operation(begun["id"], "enough")

            async def stopped() -> bool:
                return bool((await engine.operation(begun["id"]))["status"] not in ("running", "paused", "waiting"))

            await until(stopped)
            assert (await engine.prune(3600, dry_run=True)) is not None
            assert (await engine.call("GET", "/v1/statuses"))["items"]

    asyncio.run(main())
