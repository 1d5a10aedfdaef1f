"""Waits: sleeps, signals and questions.

Each takes its path when it is called. In an ``async def`` workflow, await the result; in a plain one, the call returns it.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Coroutine, TypeVar, overload

from ._arms import arm_here
from ._codec import JsonCodec, form_of, schema_of
from ._errors import Misuse, WaitTimeout
from ._execution import Execution
from ._paths import Spot
from ._options import Span, millis

T = TypeVar("T")


def shape(execution: Execution, hint: Any) -> dict[str, Any] | None:
    """The JSON Schema of contents of a type; None if the codec of the program writes them in its own way."""
    return schema_of(hint) if type(execution.codec) is JsonCodec else None


def question(execution: Execution, prompt: str, hint: Any, choices: list[str] | None) -> dict[str, Any]:
    """The question of a wait, with the form of its answer."""
    form = form_of(hint, choices) if type(execution.codec) is JsonCodec else "any"
    return {"prompt": prompt, "form": form}


def sleep(name: str, span: Span, *, key: object = None) -> Coroutine[Any, Any, None]:
    """Sleeps for a duration: seconds, or a timedelta. A sleeping run costs a row, not memory."""
    arm = arm_here("sleep")
    spot = arm.spot(name, key)
    return arm.execution.call(_sleep(arm.execution, spot, {"span_ms": millis(span)}))  # type: ignore[no-any-return]


def sleep_until(name: str, due: dt.datetime, *, key: object = None) -> Coroutine[Any, Any, None]:
    """Sleeps until a time, which must have a time zone."""
    if due.tzinfo is None:
        raise Misuse("the time of sleep_until has no time zone", hint="use datetime(..., tzinfo=timezone.utc)")
    arm = arm_here("sleep_until")
    spot = arm.spot(name, key)
    until = max(0, int(due.timestamp() * 1000))
    return arm.execution.call(_sleep(arm.execution, spot, {"until": until}))  # type: ignore[no-any-return]


async def _sleep(execution: Execution, spot: Spot, how: dict[str, Any]) -> None:
    op = execution.look(spot, "sleep")
    doing = None
    if op is None or not op.ended:
        await execution.gate()
        if execution.history.ops.get(spot.path) is None:
            doing = {"sleep": {"path": spot.path, "ord": spot.ord, **how}}
    due = how.get("until") or execution.worker.now() + int(how.get("span_ms", 0))
    execution.used(spot.arm, await execution.wait(spot.path, doing, due))


@overload
def signal(name: str, *, timeout: Span | None = ...) -> Coroutine[Any, Any, Any]: ...
@overload
def signal(name: str, type: type[T], *, timeout: Span | None = ..., schema: Any = ...) -> Coroutine[Any, Any, T]: ...
@overload
def signal(name: str, type: Any, *, timeout: Span | None = ..., schema: Any = ...) -> Coroutine[Any, Any, Any]: ...
def signal(name: str, type: Any = Any, *, timeout: Span | None = None, schema: Any = None) -> Any:
    """Waits for a signal and returns its content. Raises :class:`WaitTimeout` after ``timeout``.

    While the run waits, a signal whose content does not fit ``type`` is refused to its sender.
    """
    arm = arm_here("signal")
    spot = arm.spot(name)
    wanted: dict[str, Any] = {"signals": [name]}
    schema = schema if schema is not None else shape(arm.execution, type)
    if schema is not None:
        wanted["schemas"] = {name: schema}
    return arm.execution.call(_signal(arm.execution, spot, timed(wanted, timeout), type))


def timed(wanted: dict[str, Any], timeout: Span | None) -> dict[str, Any]:
    """Adds a timeout to a wait."""
    if timeout is not None:
        wanted["timeout_ms"] = millis(timeout)
    return wanted


async def _signal(execution: Execution, spot: Spot, wanted: dict[str, Any], hint: Any) -> Any:
    found = await wait_for(execution, spot, wanted)
    if found == "timer":
        raise WaitTimeout(f"no signal {wanted['signals'][0]} arrived in time")
    return execution.value(found[1].get("payload"), hint, f"the signal for {spot.path}")


async def wait_for(execution: Execution, spot: Spot, wanted: dict[str, Any], kind: str = "wait") -> Any:
    """Waits for the first of several things, and returns what came: ``timer``, or the kind and data of a message."""
    op = execution.look(spot, kind)
    doing = None
    if op is None or not op.ended:
        await execution.gate()
        op = execution.history.ops.get(spot.path)
        if op is None or (kind == "child" and not op.opened):
            doing = {"wait": {"path": spot.path, "ord": spot.ord, **wanted}}
    timeout = wanted.get("timeout_ms")
    op = await execution.wait(spot.path, doing, None if timeout is None else execution.worker.now() + int(timeout))
    execution.used(spot.arm, op)
    if op.found is None:
        execution.diverge(f"the log resolves {spot.path} by mail that the log does not have")
    return op.found


@overload
def ask(name: str, prompt: str, type: type[T], *, timeout: Span | None = ...) -> Coroutine[Any, Any, T]: ...
@overload
def ask(
    name: str, prompt: str, type: Any = ..., *, choices: list[str] | None = ..., timeout: Span | None = ...
) -> Coroutine[Any, Any, Any]: ...
def ask(
    name: str, prompt: str, type: Any = str, *, choices: list[str] | None = None, timeout: Span | None = None
) -> Any:
    """Asks a person and returns the answer. The form of the answer comes from ``type``: text, a choice of literals,
    a boolean, or the fields of a dataclass or model. Raises :class:`WaitTimeout` after ``timeout``."""
    arm = arm_here("ask")
    spot = arm.spot(name)
    wanted = timed({"ask": question(arm.execution, prompt, type, choices)}, timeout)
    return arm.execution.call(_ask(arm.execution, spot, wanted, str if choices is not None else type))


async def _ask(execution: Execution, spot: Spot, wanted: dict[str, Any], hint: Any) -> Any:
    found = await wait_for(execution, spot, wanted)
    if found == "timer":
        raise WaitTimeout(f"no answer to {spot.path} arrived in time")
    return execution.value(found[1].get("answer"), hint, f"the answer to {spot.path}")
