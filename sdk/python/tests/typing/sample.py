"""A program as users write it. mypy and pyright check it in strict mode."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import goldseam as gs


@dataclass
class Order:
    id: str
    lines: list[str]


@dataclass
class Receipt:
    payment: str
    parts: list[str]


@gs.step
async def reserve(order: Order) -> str:
    return f"hold-{order.id}"


@reserve.undo
async def release(hold: str) -> None:
    print(hold)


@gs.step(retry=gs.Retry(attempts=5), timeout=30)
def charge(order: Order, hold: str) -> str:
    return f"{hold} {gs.idempotency_key()}"


@gs.step
async def pick(line: str) -> str:
    return line


@gs.workflow(version=2)
async def checkout(order: Order) -> Receipt:
    hold: str = await reserve(order)
    payment: str = await charge.aio(order, hold)
    approved: bool = await gs.ask("approve", "Ship this order?", bool)
    count: int = await gs.signal("count", int)
    if not approved or count < 0:
        raise gs.Terminal("not approved")
    await gs.sleep("cool_off", timedelta(hours=1))
    parts: list[str] = await asyncio.gather(*(pick.key(line)(line) for line in order.lines))
    return Receipt(payment, parts)


@gs.workflow
async def basket(limit: int) -> int:
    total = 0
    handle = await gs.start_child("first", checkout, Order("1", []), tags={"kind": "gift"})
    receipt: Receipt = await handle.result()
    other: Receipt = await gs.child("second", checkout, Order("2", []), id="order-2")
    await gs.publish("total", [receipt.payment, other.payment])
    async for request in gs.requests("add", int):
        amount: int = request.value
        total += amount
        await request.answer(total)
        if total > limit:
            break
    await gs.signal_run("order-17", "done", total)
    return total


@gs.workflow
def plain(number: int) -> int:
    return len(charge.sync(Order("3", []), str(number)))


def without_a_loop() -> int:
    with gs.open("sqlite:orders.db", workflows=[plain]) as engine:
        run = engine.start(plain, 3, timeout=timedelta(minutes=1))
        status: str = run.status()
        found = engine.list(status="running", limit=10)
        print(status, found["items"], [event["seq"] for event in run.events()])
        return run.result(timeout=5)


async def main() -> None:
    async with gs.open("sqlite:orders.db", workflows=[checkout]) as engine:
        run = await engine.start(checkout, Order("17", []), id="order-17")
        receipt: Receipt = await run.result()
        print(receipt.payment)
        async for event in run.events():
            print(event["seq"])


async def mistakes(engine: gs.Engine, blocking: gs.BlockingEngine) -> None:
    """Each line is an error of its type, so the comments are needed: mypy and pyright report those that are not."""
    number: int = await (await engine.start(checkout, Order("1", []))).result()  # type: ignore[assignment]
    text: str = blocking.start(plain, 1).result()  # type: ignore[assignment]
    listed: str = blocking.list()  # type: ignore[assignment]
    answer = await gs.ask("sure", "Sure?", bool)
    asked: str = answer  # type: ignore[assignment]
    await reserve("17")  # type: ignore[arg-type]
    child: int = await gs.child("one", checkout, Order("2", []))  # type: ignore[arg-type]
    print(number, text, listed, asked, child)
