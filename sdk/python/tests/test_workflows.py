"""Workflows end to end, on both transports."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import subprocess
import sys
import time
from typing import Any

import pytest
from conftest import asked, new_id, opened, status_is, unique, until

import goldseam as gs


@dataclasses.dataclass
class Order:
    id: str
    lines: list[str]


def test_steps_waits_questions_and_gather_complete_a_run(url: str) -> None:
    calls: list[str] = []

    @gs.step
    async def reserve(order: Order) -> str:
        calls.append("reserve")
        return f"hold-{order.id}"

    @gs.step(retry=gs.Retry(attempts=3, initial=0.01))
    def charge(order: Order, hold: str) -> str:
        calls.append(f"charge {gs.attempt().number}")
        if gs.attempt().number == 1:
            raise ValueError("busy")
        return gs.idempotency_key()

    @gs.step
    async def pick(line: str) -> str:
        await asyncio.sleep(0)
        return line.upper()

    @gs.workflow
    async def checkout(order: Order) -> dict[str, Any]:
        hold = await reserve(order)
        paid = await charge(order, hold)
        if not await gs.ask("approve", "Ship it?", bool):
            raise gs.Terminal("not approved")
        await gs.sleep("cool_off", 0.02)
        parts = await asyncio.gather(*(pick.key(line)(line) for line in order.lines))
        return {"paid": paid, "parts": parts}

    unique(checkout)

    async def main() -> None:
        async with opened(url, checkout) as engine:
            run = await engine.start(checkout, Order("17", ["a", "b", "c"]), id=new_id())
            question = await asked(engine, run.id)
            assert question["prompt"] == "Ship it?"
            await run.answer("approve", True)
            result = await run.result(60)
            assert result["parts"] == ["A", "B", "C"] and len(result["paid"]) == 32
            assert calls == ["reserve", "charge 1", "charge 2"]
            events = [event async for event in run.events()]
            assert any(event.get("path") == "pick:b" or "pick:b" in str(event) for event in events)

    asyncio.run(main())


def test_failed_run_is_undone_latest_first(url: str) -> None:
    calls: list[str] = []

    @gs.step
    async def first() -> str:
        return "one"

    @first.undo
    async def undo_first(result: str) -> None:
        calls.append(f"undo {result}")

    @gs.step
    def second() -> str:
        return "two"

    @second.undo
    def undo_second(result: str) -> None:
        calls.append(f"undo {result}")

    @gs.workflow
    async def saga() -> None:
        await first()
        await second()
        raise gs.Terminal("sold out", code="sold-out")

    unique(saga)

    async def main() -> None:
        async with opened(url, saga) as engine:
            run = await engine.start(saga, id=new_id())
            with pytest.raises(gs.RunFailed) as caught:
                await run.result(60)
            assert caught.value.code == "sold-out" and caught.value.status == "failed"
            assert calls == ["undo two", "undo one"]

    asyncio.run(main())


def test_signal_select_and_timeouts(url: str) -> None:
    @gs.workflow
    async def waits() -> list[Any]:
        number = await gs.signal("number", int)
        chosen = await gs.select("either", signals=["yes", "no"], timeout=60)
        late = await gs.select("late", signals=["never"], timeout=0.02)
        try:
            await gs.signal("nothing", timeout=0.01)
        except gs.WaitTimeout as error:
            return [number, chosen.kind, chosen.name, chosen.value, late.kind, error.is_timeout]
        return []

    unique(waits)

    async def main() -> None:
        async with opened(url, waits) as engine:
            run = await engine.start(waits, id=new_id())
            await status_is(engine, run.id, "waiting")
            with pytest.raises(gs.Problem) as caught:
                await run.signal("number", "no number")
            assert caught.value.code == "GS0123"
            await run.signal("no", {"by": "ada"})
            await run.signal("number", 7)
            assert await run.result(60) == [7, "signal", "no", {"by": "ada"}, "timeout", True]

    asyncio.run(main())


def test_children_return_results_and_failures(url: str) -> None:
    @gs.workflow
    async def parcel(weight: int) -> int:
        if weight < 0:
            raise gs.Terminal("negative")
        return weight * 3

    @gs.workflow
    async def order() -> list[Any]:
        small = await gs.start_child("small", parcel, 1)
        large = await gs.child("large", parcel, 10)
        try:
            await gs.child("bad", parcel, -1)
        except gs.ChildFailed as error:
            return [await small.result(), large, error.message]
        return []

    unique(parcel, order)

    async def main() -> None:
        async with opened(url, parcel, order) as engine:
            run = await engine.start(order, id=new_id())
            assert await run.result(60) == [3, 30, "negative"]

    asyncio.run(main())


def test_continue_as_new_starts_over(url: str) -> None:
    @gs.workflow
    async def countdown(left: int) -> str:
        if left:
            await gs.sleep("tick", 0.001)
            gs.continue_as_new(left - 1)
        return "liftoff"

    unique(countdown)

    async def main() -> None:
        async with opened(url, countdown) as engine:
            run = await engine.start(countdown, 3, id=new_id())
            assert await run.result(60) == "liftoff"

    asyncio.run(main())


def test_cancel_undoes_and_ends_cancelled(url: str) -> None:
    undone: list[str] = []
    seen: list[str] = []

    @gs.step
    async def reserve() -> str:
        return "hold"

    @reserve.undo
    async def release(hold: str) -> None:
        undone.append(hold)

    @gs.workflow
    async def patient() -> None:
        await reserve()
        try:
            await gs.signal("go")
        except asyncio.CancelledError as error:
            seen.append(type(error).__name__)
            raise

    unique(patient)

    async def main() -> None:
        async with opened(url, patient) as engine:
            run = await engine.start(patient, id=new_id())
            await status_is(engine, run.id, "waiting")
            await run.cancel("changed my mind")
            with pytest.raises(gs.RunFailed) as caught:
                await run.result(60)
            assert caught.value.status == "cancelled"
            assert undone == ["hold"] and seen == ["Cancelled"]

    asyncio.run(main())


def test_cancel_in_a_task_group_does_not_complete_the_run(url: str) -> None:
    undone: list[str] = []

    @gs.step
    async def book(name: str) -> str:
        return name

    @book.undo
    async def unbook(name: str) -> None:
        undone.append(name)

    @gs.workflow
    async def travel() -> str:
        await book("hotel")
        if hasattr(asyncio, "TaskGroup"):
            async with asyncio.TaskGroup() as group:
                group.create_task(gs.sleep("long", 3600))
                group.create_task(gs.signal("never"))
        else:
            await asyncio.wait([asyncio.create_task(gs.sleep("long", 3600))])
        return "booked, it seems"

    unique(travel)

    async def main() -> None:
        async with opened(url, travel) as engine:
            run = await engine.start(travel, id=new_id())
            await status_is(engine, run.id, "waiting", "sleeping")
            await run.cancel("no time")
            assert await status_is(engine, run.id, "cancelled", "completed") == "cancelled"
            assert undone == ["hotel"]

    asyncio.run(main())


def test_task_group_and_create_task_have_arms(url: str) -> None:
    @gs.step
    async def leg(name: str) -> str:
        await asyncio.sleep(0.001)
        return name

    async def trip(name: str) -> list[str]:
        return [await leg(name), await leg(name + "!")]

    @gs.workflow
    async def travel() -> list[Any]:
        tasks = [asyncio.create_task(trip(name)) for name in ("car", "hotel")]
        both = [await task for task in tasks]
        if hasattr(asyncio, "TaskGroup"):
            async with asyncio.TaskGroup() as group:
                more = [group.create_task(trip(name)) for name in ("train", "boat")]
            both += [task.result() for task in more]
        return both

    unique(travel)

    async def main() -> None:
        async with opened(url, travel) as engine:
            run = await engine.start(travel, id=new_id())
            assert (await run.result(60))[:2] == [["car", "car!"], ["hotel", "hotel!"]]
            log = str(await run.history(limit=200))
            assert "trip~/leg" in log and "trip#2~/leg#2" in log

    asyncio.run(main())


def test_plain_workflow_and_blocking_client(url: str) -> None:
    @gs.step
    def double(number: int) -> int:
        return number * 2

    @gs.workflow
    def plain(number: int) -> list[Any]:
        doubled = double(number)
        gs.sleep("nap", 0.01)
        answer = gs.ask("ok", "Go on?", bool)
        return [doubled, answer, gs.uuid().version]

    unique(plain)
    with gs.open(url, workflows=[plain], drain=2) as engine:
        run = engine.start(plain, 21, id=new_id())
        deadline = time.monotonic() + 60
        while not engine.questions(run.id)["items"]:
            assert time.monotonic() < deadline
        run.answer("ok", True)
        assert run.result(60) == [42, True, 4]


def test_timeout_and_heartbeat_timeout_fail_attempts(url: str) -> None:
    @gs.step(timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(30)

    @gs.step(heartbeat_timeout=0.05)
    async def silent() -> None:
        await asyncio.sleep(30)

    @gs.workflow
    async def impatient() -> list[Any]:
        codes = []
        for step in (slow, silent):
            try:
                await step()
            except gs.StepFailed as error:
                codes.append(error.code)
        return codes

    unique(impatient)

    async def main() -> None:
        async with opened(url, impatient) as engine:
            run = await engine.start(impatient, id=new_id())
            assert await run.result(60) == ["timeout", "heartbeat-timeout"]

    asyncio.run(main())


def test_pause_holds_a_run_and_resume_continues_it(url: str) -> None:
    @gs.step
    async def tick(number: int) -> int:
        await asyncio.sleep(0.02)
        return number

    @gs.workflow
    async def ticks() -> int:
        total = 0
        for number in range(20):
            total += await tick(number)
        return total

    unique(ticks)

    async def main() -> None:
        async with opened(url, ticks) as engine:
            run = await engine.start(ticks, id=new_id())
            await run.pause("look at it")
            await status_is(engine, run.id, "paused")
            await run.resume()
            assert await run.result(60) == 190

    asyncio.run(main())


def test_remote_steps_progress_attributes_and_changes(url: str) -> None:
    @gs.workflow
    async def mixed() -> list[Any]:
        await gs.progress("begins")
        await gs.set_attribute("stage", "one")
        changed = gs.changed("fraud-check")
        count = await gs.remote("count", {"of": 3}, int, queue=queue)
        return [changed, count, gs.version(), gs.tag("team"), gs.now() > dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)]

    queue = new_id("q")
    unique(mixed)

    async def main() -> None:
        async with opened(url, mixed) as engine:
            serving = asyncio.create_task(engine.serve_tasks({"count": lambda payload: payload["of"]}, queue=queue))
            run = await engine.start(mixed, id=new_id(), tags={"team": "a"})
            assert await run.result(60) == [True, 3, 1, "a", True]
            serving.cancel()
            found = await engine.list(where='stage = "one"')
            assert run.id in [item["run"] for item in found["items"]]

    asyncio.run(main())


def test_group_is_not_replayed_once_complete(url: str) -> None:
    calls: list[str] = []

    @gs.step
    async def fold() -> int:
        calls.append("fold")
        return 2

    async def pack() -> int:
        calls.append("pack")
        return await fold() + await fold()

    @gs.workflow
    async def packs() -> int:
        total = await gs.group("pack", pack)
        await gs.signal("go")
        return total

    unique(packs)

    async def main() -> None:
        async with opened(url, packs) as engine:
            run = await engine.start(packs, id=new_id())
            await status_is(engine, run.id, "waiting")
            await run.signal("go")
            assert await run.result(60) == 4
            assert calls == ["pack", "fold", "fold"]

    asyncio.run(main())


def test_same_id_with_other_input_is_refused_with_code_and_hint(url: str) -> None:
    @gs.workflow
    async def echo(value: int) -> int:
        return value

    unique(echo)

    async def main() -> None:
        async with opened(url, echo) as engine:
            known = new_id()
            assert await (await engine.start(echo, 1, id=known)).result(60) == 1
            assert await (await engine.start(echo, 1, id=known)).result(60) == 1
            with pytest.raises(gs.Problem) as caught:
                await engine.start(echo, 2, id=known)
            assert caught.value.code == "GS0108" and "GS0108" in str(caught.value)

    asyncio.run(main())


def test_client_verbs_answer(url: str) -> None:
    @gs.step
    async def fragile() -> None:
        raise gs.Terminal("broken")

    @gs.workflow
    async def breaks() -> None:
        await fragile()

    unique(breaks)

    async def main() -> None:
        async with opened(url, breaks) as engine:
            run = await engine.start(breaks, id=new_id())
            await status_is(engine, run.id, "failed")
            assert (await run.show())["run"] == run.id or run.id in str(await run.show())
            assert (await engine.why(run.id)) and (await engine.branches(run.id))["items"]
            assert (await engine.doctor()) and (await engine.recoveries()) and (await engine.recovery_stats())
            assert (await engine.statuses()) and (await engine.activity()) and (await engine.current_key())
            assert "items" in await engine.suggestions("workflow")
            assert (await engine.nodes())["items"] and (await engine.queue_stats()) is not None
            lock = await engine.acquire_lock(new_id("lock"), "me", ttl=60)
            await engine.extend_lock(lock["name"], "me", lock["fence"], ttl=60)
            await engine.release_lock(lock["name"], "me", lock["fence"])
            assert (await engine.reclaim_stale(dry_run=True))["dry_run"]
            assert "entries_reclaimed" in await engine.detect_and_recover_stale()
            report = await gs.Sweeper(engine, report_only=True).once()
            assert report["healed"] == 0 and report["scanned"] >= 0
            healing = await gs.Sweeper(engine).once()
            assert "stalled" in healing
            await engine.retry(run.id, "again")
            await status_is(engine, run.id, "failed")
            task = await engine.submit_task("mail", {"to": 1}, queue=new_id("q"))
            claimed = await engine.claim_tasks("me", queue=task["queue"])
            assert [item["task"]["id"] for item in claimed["items"]] == [task["id"]]
            await engine.complete_task(task["id"], claimed["items"][0]["token"])

    asyncio.run(main())


def test_wait_for_a_question_ends_with_the_run(url: str) -> None:
    @gs.workflow
    async def silent() -> int:
        return int(await gs.signal("go", int))

    (silent_,) = unique(silent)

    async def main() -> None:
        async with opened(url, silent_) as engine:
            run = await engine.start(silent_, id=new_id())
            waiting = asyncio.create_task(run.question("approve"))
            await status_is(engine, run.id, "waiting")
            assert not waiting.done()
            await run.signal("go", 1)
            with pytest.raises(gs.Problem, match="is completed and has no open question approve") as refused:
                await asyncio.wait_for(waiting, 60)
            assert refused.value.code == "GS0105"

    asyncio.run(main())


def test_sweeper_reports_a_stalled_run_or_heals_it(sqlite_url: str) -> None:
    lose = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('DELETE FROM tasks'); c.commit()"

    @gs.workflow
    async def waits() -> int:
        return await gs.signal("go", int)

    async def main() -> None:
        async with opened(sqlite_url, waits) as engine:
            run = await engine.start(waits)
            await status_is(engine, run.id, "waiting")
            subprocess.run([sys.executable, "-c", lose, sqlite_url.partition(":")[2]], check=True)
            report = await gs.Sweeper(engine, report_only=True, stale_after=0).once()
            assert (report["healed"], [found["code"] for found in report["stalled"]]) == (0, ["O1"])
            assert (await engine.recoveries())["items"] == [], "a report changes nothing"
            healed = await gs.Sweeper(engine, stale_after=0).once()
            assert healed["healed"] == 1
            assert [entry["rule"] for entry in (await engine.recoveries())["items"]] == ["O1"]
            async for sweep in gs.Sweeper(engine, every=0, stale_after=0).sweeps():
                assert sweep["stalled"] == []
                break
            await run.signal("go", 3)
            assert await run.result(60) == 3

    asyncio.run(main())


def test_jump_goes_back_to_a_step(url: str) -> None:
    counts = {"a": 0, "b": 0}

    @gs.step
    async def count(name: str) -> int:
        counts[name] += 1
        return counts[name]

    @gs.workflow
    async def twice() -> list[int]:
        return [await count.key("a")("a"), await count.key("b")("b")]

    unique(twice)

    async def main() -> None:
        async with opened(url, twice) as engine:
            run = await engine.start(twice, id=new_id())
            assert await run.result(60) == [1, 1]
            await engine.jump(run.id, "count:b", reason="again")

            async def again() -> bool:
                return bool((await engine.poll(run.id)).get("output") == [1, 2])

            await until(again)

    asyncio.run(main())


def test_runs_stay_on_their_version(url: str) -> None:
    @gs.workflow(name="priced")
    async def old(price: int) -> int:
        await gs.signal("go")
        return price

    @gs.workflow(name="priced", version=2)
    async def new(price: int) -> int:
        return price * 2

    unique(old)
    new.name = old.name

    async def main() -> None:
        known = new_id()
        async with opened(url, old) as engine:
            await engine.start(old, 10, id=known)
            await status_is(engine, known, "waiting")
        async with opened(url, new) as engine:
            await engine.signal(known, "go")
            assert await (await engine.start(new, 10, id=new_id())).result(60) == 20
            assert (await engine.poll(known))["status"] not in ("completed", "failed", "parked")
        async with opened(url, old, new) as engine:
            assert await engine.result(known, 60) == 10

    asyncio.run(main())
