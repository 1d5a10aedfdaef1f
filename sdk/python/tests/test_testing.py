"""The tester: virtual time, and a crash before and after every append."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import pathlib
import time
from typing import Any

import pytest

import goldseam as gs
from goldseam.testing import CrashSearchFailed, Tester


@dataclasses.dataclass
class Order:
    id: str
    lines: list[str]


def test_sleep_of_days_takes_no_real_time(goldseam: Tester) -> None:
    @gs.workflow
    async def patient() -> float:
        began = gs.now()
        await gs.sleep("long", dt.timedelta(days=14))
        await gs.sleep("longer", dt.timedelta(days=30))
        return (gs.now() - began).total_seconds()

    began = time.monotonic()
    assert goldseam.run(patient) >= 44 * 86400
    assert time.monotonic() - began < 60


def test_every_crash_of_a_checkout_ends_the_same(goldseam: Tester) -> None:
    @gs.step
    async def reserve(order: Order) -> str:
        goldseam.did("reserve", gs.idempotency_key())
        return f"hold-{order.id}"

    @gs.step
    def charge(order: Order, hold: str) -> str:
        goldseam.did("charge", gs.idempotency_key())
        return f"{hold} paid"

    @gs.step
    async def pick(line: str) -> str:
        goldseam.did("pick", gs.idempotency_key())
        return line.upper()

    @gs.workflow
    async def checkout(order: Order) -> dict[str, Any]:
        hold = await reserve(order)
        payment = await charge(order, hold)
        if not await gs.ask("approve", "Ship this order?", bool):
            raise gs.Terminal("not approved")
        await gs.sleep("cool_off", dt.timedelta(hours=1))
        parts = await asyncio.gather(*(pick.key(line)(line) for line in order.lines))
        return {"payment": payment, "parts": parts}

    report = goldseam.every_crash(checkout, Order("1", ["a", "b"]), answers={"approve": True})
    assert report.outcome == {"payment": "hold-1 paid", "parts": ["A", "B"]}
    assert report.cases == 2 * report.appends + 1 and report.appends >= 5
    assert report.most["charge"] == 2, "a crash between the charge and its record repeats it with the same key"


def test_every_crash_of_a_saga_undoes_each_step_once(goldseam: Tester) -> None:
    @gs.step
    async def reserve() -> str:
        return "hold"

    @reserve.undo
    async def release(hold: str) -> None:
        goldseam.did("release", gs.idempotency_key())

    @gs.workflow
    async def saga() -> None:
        await reserve()
        raise gs.Terminal("sold out")

    report = goldseam.every_crash(saga)
    assert report.outcome.message == "sold out" and report.most["release"] >= 1


def test_effect_without_a_key_is_found(goldseam: Tester) -> None:
    @gs.step
    async def careless() -> None:
        goldseam.did("charge")

    @gs.workflow
    async def job() -> None:
        await careless()

    with pytest.raises(CrashSearchFailed, match="effects count"):
        goldseam.every_crash(job)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_keys_and_chance_in_the_result_are_the_same_in_every_case(store: str, tmp_path: pathlib.Path) -> None:
    @gs.step
    async def key() -> str:
        return gs.idempotency_key()

    @gs.workflow
    async def keyed() -> list[Any]:
        return [await key(), str(gs.uuid()), gs.random().random(), gs.run_id()]

    tester = Tester("memory:" if store == "memory" else f"sqlite:{tmp_path}/t.db")
    assert tester.every_crash(keyed).cases >= 5
    assert tester.run(keyed) == tester.run(keyed)


def test_code_that_depends_on_chance_is_found(goldseam: Tester) -> None:
    counter = iter(range(1000))

    @gs.step
    async def any_step(number: int) -> int:
        return number

    @gs.workflow
    async def job() -> int:
        await any_step.key(f"n{next(counter)}")(1)
        return int(await any_step(2))

    with pytest.raises(CrashSearchFailed, match="parked|ended with"):
        goldseam.every_crash(job)


def test_signals_and_children_survive_every_crash(goldseam: Tester) -> None:
    @gs.workflow
    async def parcel(weight: int) -> int:
        return weight * 3

    @gs.workflow
    async def order() -> int:
        weight = await gs.signal("weight", int)
        return int(await gs.child("parcel", parcel, weight))

    report = goldseam.every_crash(order, signals=[("weight", 7)], also=[parcel])
    assert report.outcome == 21


def test_at_most_once_fails_with_unknown_outcome_or_completes(goldseam: Tester) -> None:
    @gs.step(at_most_once=True)
    async def pay() -> str:
        goldseam.did("pay")
        return "paid"

    @gs.workflow
    async def job() -> str:
        return await pay()

    def unknown(outcome: Any) -> bool:
        return isinstance(outcome, gs.RunFailed) and outcome.code == "outcome-unknown"

    report = goldseam.every_crash(job, allow=unknown)
    assert report.most["pay"] == 1
