"""What programs do that no guide shows: odd exceptions, functions that cannot be steps, values that are not JSON."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import functools
import gc
import sys
import threading
from typing import Any

import pytest
from conftest import new_id, opened, status_is, unique

import goldseam as gs


class Base(BaseException):
    """Not an ``Exception``."""


def raise_odd(kind: str) -> None:
    if kind == "StopIteration":
        raise StopIteration(3)
    if kind == "SystemExit":
        sys.exit("bye")
    if kind == "KeyboardInterrupt":
        raise KeyboardInterrupt
    if kind == "Base":
        raise Base("odd")
    if kind == "CancelledError":
        raise asyncio.CancelledError
    if kind == "ExceptionGroup":
        raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])  # noqa: F821
    if kind == "surrogate":
        raise ValueError("half \ud800 pair and \x00")
    if kind == "huge":
        raise ValueError("x" * 3_000_000)
    if kind == "number":
        error = ValueError("coded")
        error.code = 404  # type: ignore[attr-defined]
        raise error


ODD = ["StopIteration", "SystemExit", "KeyboardInterrupt", "Base", "CancelledError", "surrogate", "huge", "number"]
if sys.version_info >= (3, 11):
    ODD.append("ExceptionGroup")


@pytest.mark.parametrize("kind", ODD)
def test_odd_exceptions_of_steps_are_failures(kind: str, sqlite_url: str) -> None:
    @gs.step
    def in_thread() -> None:
        raise_odd(kind)

    @gs.step
    async def on_loop() -> None:
        # An interrupt on the loop is meant for the program.
        raise_odd(kind if kind != "KeyboardInterrupt" else "Base")

    @gs.workflow
    async def job() -> list[str]:
        found = []
        for step in (in_thread, on_loop):
            try:
                await step()
            except gs.StepFailed as error:
                found.append(error.message[:100])
        return found

    async def main() -> None:
        async with opened(sqlite_url, job) as engine:
            found = await (await engine.start(job)).result(60)
            assert len(found) == 2 and all(found), found
            if kind in ("SystemExit", "Base"):
                assert all(kind in text for text in found)

    if kind == "CancelledError" and sys.version_info < (3, 11):
        pytest.skip("Python 3.10 does not say whose cancellation it is")
    asyncio.run(main())


@pytest.mark.parametrize("kind", ["SystemExit", "Base", "StopIteration", "surrogate", "CancelledError"])
def test_odd_exceptions_of_workflows_fail_the_run_alone(kind: str, sqlite_url: str) -> None:
    @gs.workflow
    async def on_loop() -> None:
        raise_odd(kind)

    @gs.workflow
    def in_thread() -> None:
        raise_odd(kind)

    async def main() -> None:
        async with opened(sqlite_url, on_loop, in_thread) as engine:
            for workflow in (on_loop, in_thread):
                run = await engine.start(workflow)
                with pytest.raises(gs.RunFailed):
                    await run.result(60)

    asyncio.run(main())


def test_what_is_not_a_function_is_refused_when_decorated() -> None:
    def generator() -> Any:
        yield 1

    async def async_generator() -> Any:
        yield 1

    async def plain() -> None: ...

    async def many(*args: int) -> None: ...

    async def named(**kwargs: int) -> None: ...

    async def method(self: object) -> None: ...

    for function in (generator, async_generator, int, 3, gs.step(plain), gs.workflow(plain)):
        for decorate in (gs.step, gs.workflow):
            with pytest.raises(gs.Misuse):
                decorate(function)  # type: ignore[call-overload]
    for function in (many, named, method):
        with pytest.raises(gs.Misuse):
            gs.workflow(function)  # type: ignore[type-var]


def test_methods_partials_and_lambdas_are_steps(sqlite_url: str) -> None:
    class Shop:
        def __init__(self, tax: int) -> None:
            self.tax = tax

        @gs.step
        async def price(self, net: int) -> int:
            return net + self.tax

        @gs.step
        def twice(self, net: int) -> int:
            return net * 2 + self.tax

    part = gs.step(name="part")(functools.partial(lambda a, b: a + b, 1))
    anonymous = gs.step(name="anonymous")(lambda number: -number)

    @gs.workflow
    async def job(net: int, *, more: int = 0) -> list[Any]:
        shop = Shop(5)
        return [await shop.price(net), await shop.twice(net), await part(net), await anonymous(net), more]

    async def main() -> None:
        async with opened(sqlite_url, job) as engine:
            assert await (await engine.start(job, 10, more=3)).result(60) == [15, 25, 11, -10, 3]

    asyncio.run(main())


def test_types_of_an_enclosing_function_are_known(sqlite_url: str) -> None:
    @dataclasses.dataclass
    class Order:
        cents: int

    @gs.step
    async def same(order: Order) -> Order:
        return order

    @gs.workflow
    async def job(order: Order) -> int:
        return (await same(order)).cents

    async def main() -> None:
        async with opened(sqlite_url, job) as engine:
            assert await (await engine.start(job, Order(7))).result(60) == 7

    asyncio.run(main())


def test_values_without_json_are_failures_of_their_step(sqlite_url: str) -> None:
    ring: list[Any] = []
    ring.append(ring)
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    values = {"ring": ring, "deep": deep, "long": 10**5000, "keys": {1: "a", "1": "b"}, "lock": threading.Lock()}

    @gs.step(retry=3)
    async def give(name: str) -> Any:
        return values[name]

    @gs.workflow
    async def job(name: str) -> str:
        try:
            await give(name)
        except gs.StepFailed as error:
            return str(error.code)
        return "nothing"

    async def main() -> None:
        async with opened(sqlite_url, job) as engine:
            codes = {name: await (await engine.start(job, name)).result(60) for name in values}
            assert codes.pop("deep") in ("GS0102", "GS0103")
            assert set(codes.values()) == {"GS0634"}

    asyncio.run(main())


def test_forgotten_await_is_named(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A step that is never awaited does not run; Python and the log of the worker name it."""

    @gs.step
    async def reserve() -> str:
        return "held"

    @gs.workflow
    async def forgetful() -> str:
        reserve()
        return "done"

    @gs.workflow
    async def handed_on() -> object:
        return {"hold": reserve()}

    async def main() -> None:
        async with opened(sqlite_url, forgetful, handed_on) as engine:
            with pytest.warns(RuntimeWarning, match="coroutine 'step reserve' was never awaited"):
                assert await (await engine.start(forgetful, id="f-1")).result(60) == "done"
                with pytest.raises(gs.RunFailed, match="its result is missing") as failed:
                    await (await engine.start(handed_on, id="h-1")).result(60)
                gc.collect()
            assert failed.value.code == "GS0634"

    asyncio.run(main())
    assert "run f-1 called steps without awaiting them, so they did not run: reserve" in caplog.text
    assert "GS0633" in caplog.text


def test_mistakes_of_newcomers_are_clear_errors(sqlite_url: str) -> None:
    @dataclasses.dataclass
    class Order:
        id: str

    @gs.step
    async def charge(order: Order) -> str:
        return order.id

    @gs.workflow
    async def checkout(order: Order) -> str:
        return await charge(order)

    def refused(call: Any, kind: type[BaseException], code: str | None, *parts: str) -> None:
        with pytest.raises(kind) as error:
            call()
        assert getattr(error.value, "code", None) == code
        assert all(part in str(error.value) for part in parts), str(error.value)

    unnamed: Any = None
    refused(lambda: gs.open(sqlite_url, workflows=checkout), gs.Misuse, "GS0633", "must be a list", "workflows=[checkout]")  # type: ignore[arg-type]
    refused(lambda: gs.open(sqlite_url).start, AttributeError, None, "not open yet", "async with gs.open")  # type: ignore[attr-defined]
    for options in ({"retry": 0}, {"retry": "5"}, {"retry": gs.Retry(attempts=0)}, {"timeout": "30"}, {"timeout": -1}):
        refused(lambda: gs.step(**options)(lambda: 1), gs.Misuse, "GS0138", "invalid")  # type: ignore[call-overload]  # noqa: B023
    refused(lambda: charge.with_options(heartbeat_timeout=0), gs.Misuse, "GS0138", "heartbeat_timeout")
    refused(lambda: gs.workflow(version="2")(charge.function), gs.Misuse, "GS0134", "'2'")  # type: ignore[call-overload]
    with gs.open(sqlite_url, workflows=[checkout]) as engine:
        start: Any = engine.start
        refused(lambda: start(checkout), TypeError, None, "workflow checkout: missing a required argument: 'order'")
        refused(lambda: start(checkout, 5), gs.CodecError, "GS0634", "argument order of workflow checkout: cannot read 5 as")
        refused(lambda: start(charge, Order("1")), gs.Misuse, "GS0633", "<step charge> is not a workflow")
        refused(lambda: start(unnamed, 1), gs.Misuse, "GS0633", "None is not a workflow")
        refused(lambda: start(checkout, Order("1"), id=5), gs.Misuse, "GS0101", "must be text, not 5")
        refused(lambda: start(checkout, Order("1"), id="a b"), gs.Problem, "GS0101", "not a valid run id")
        refused(lambda: engine.show("none"), gs.Problem, "GS0104", "does not exist")
        refused(lambda: engine.list(where="status === 3"), gs.Problem, "GS0139", "write =")
        assert start(checkout, {"id": "as a document"}).result(60) == "as a document"
    with pytest.raises(gs.Misuse, match="<step charge> is not a workflow"):
        with gs.open(sqlite_url, workflows=[charge]):  # type: ignore[list-item]
            pass


def test_parked_run_is_a_warning_of_its_worker(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    @gs.workflow
    async def takes(number: int) -> int:
        return number

    async def main() -> None:
        async with opened(sqlite_url, takes) as engine:
            run = await engine.start("takes", "five", id="t-1")
            await status_is(engine, run.id, "parked")

    asyncio.run(main())
    assert "run t-1 is parked: the code cannot read the input of the run" in caplog.text


def test_large_numbers_and_texts_come_back_as_they_were(url: str) -> None:
    @gs.workflow
    async def same(value: Any) -> Any:
        return value

    unique(same)
    values = [10**300, -(2**63) - 1, 2**64, 1e308, 5e-324, 0.1 + 0.2, "ü\u2028\x00😀", {"😀": [None, True]}, collections.Counter("aab")]

    async def main() -> None:
        async with opened(url, same) as engine:
            for value in values:
                assert await (await engine.start(same, value, id=new_id())).result(60) == value
            with pytest.raises(gs.Problem) as caught:
                await engine.start(same, 10**400, id=new_id())
            assert caught.value.code == "GS0102" and "string" in str(caught.value)

    asyncio.run(main())


def test_code_of_a_codec_gets_no_schema_and_its_own_answers(sqlite_url: str) -> None:
    class Wrapped(gs.JsonCodec):
        def encode(self, value: Any) -> Any:
            return {"sealed": super().encode(value)}

        def decode(self, data: Any, hint: Any) -> Any:
            return super().decode(data["sealed"], hint)

    @gs.workflow
    async def job() -> list[Any]:
        return [await gs.signal("number", int), await gs.ask("sure", "Sure?", bool)]

    async def main() -> None:
        async with opened(sqlite_url, job, codec=Wrapped()) as engine:
            run = await engine.start(job)
            await status_is(engine, run.id, "waiting")
            await run.signal("number", 3)
            await run.question("sure", 60)
            await run.answer("sure", True)
            assert await run.result(60) == [3, True]

    asyncio.run(main())


def test_blocking_call_on_the_loop_of_its_engine_is_refused(sqlite_url: str) -> None:
    @gs.step
    async def careless() -> str:
        try:
            engine.list()
        except gs.Misuse as error:
            return str(error.code)
        return "never returns"

    @gs.workflow
    async def job() -> str:
        return await careless()

    with gs.open(sqlite_url, workflows=[job], drain=2) as engine:
        assert engine.start(job).result(60) == "GS0633"


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"", b"[]", b"null", b'{"worker":'])
def test_server_that_is_not_ours_is_a_clear_error(body: bytes) -> None:
    import http.server

    class Foreign(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None: ...

    @gs.workflow
    async def job() -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Foreign) as foreign:
        threading.Thread(target=foreign.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{foreign.server_address[1]}"
        with gs.open(url) as client, pytest.raises(gs.Problem, match="Goldseam server"):
            client.start(job)
        with pytest.raises(gs.Problem, match="Goldseam server"):
            gs.open(url, workflows=[job]).__enter__()
        foreign.shutdown()


def test_url_that_is_not_one_is_a_clear_error(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:", "sqlite:.", "nothing", "", "http://", 5, None):
        with pytest.raises(gs.Error) as caught:
            gs.open(url).__enter__()  # type: ignore[arg-type]
        assert caught.value.code in ("GS0205", "GS0206"), caught.value


def test_codec_that_returns_no_json_fails_the_step_alone(sqlite_url: str) -> None:
    class Careless(gs.JsonCodec):
        def encode(self, value: Any) -> Any:
            return object() if value == "odd" else super().encode(value)

    @gs.step
    async def odd() -> str:
        return "odd"

    @gs.workflow
    async def caught() -> str:
        try:
            return await odd()
        except gs.StepFailed as error:
            return f"caught {error.code}"

    @gs.workflow
    async def returned() -> str:
        return "odd"

    @gs.workflow
    async def continued(number: int) -> None:
        gs.continue_as_new("odd")

    async def main() -> None:
        async with opened(sqlite_url, caught, returned, continued, codec=Careless()) as engine:
            assert await (await engine.start(caught)).result(60) == "caught GS0634"
            for run in (await engine.start(returned), await engine.start(continued, 1)):
                with pytest.raises(gs.RunFailed) as error:
                    await run.result(60)
                assert error.value.code == "GS0634"

    asyncio.run(main())


def test_appends_that_are_too_large_together_are_sent_alone(url: str) -> None:
    @gs.step
    async def big(number: int) -> str:
        return str(number) * 100_000

    @gs.workflow
    async def many() -> int:
        return sum(len(text) for text in await asyncio.gather(*(big(number) for number in range(10, 30))))

    unique(many)

    async def main() -> None:
        async with opened(url, many) as engine:
            assert await (await engine.start(many, id=new_id())).result(60) == 20 * 200_000

    asyncio.run(main())


def test_engine_left_open_ends_with_its_program_in_silence(tmp_path: Any) -> None:
    import os
    import pathlib
    import subprocess

    program = """
import asyncio, time, goldseam as gs
@gs.step
async def long() -> None:
    await asyncio.sleep(30)
@gs.step
def block() -> None:
    time.sleep(30)
@gs.workflow
async def job() -> None:
    await asyncio.gather(long(), block(), gs.sleep("nap", 3600))
async def main():
    engine = await gs.open("sqlite:e.db", workflows=[job])
    await engine.start(job, id="j")
    while not engine.worker.executions:
        await asyncio.sleep(0.01)
asyncio.run(main())
print("end")
"""
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(gs.__file__).resolve().parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60
    )
    assert done.returncode == 0 and done.stdout == "end\n"
    assert "Traceback" not in done.stderr and "unhandled" not in done.stderr, done.stderr
