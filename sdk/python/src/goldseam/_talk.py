"""Talking to the world outside of a run: published values, requests, signals to other runs, and traces."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import urllib.parse
from typing import Any, AsyncIterator, Coroutine, Generic, TypeVar, overload

from ._arms import arm_here
from ._errors import CodecError, Misuse, Problem, Retryable, Terminal, Unreachable, WaitTimeout
from ._execution import Execution
from ._paths import Spot, checked, current_arm, current_attempt, digest, idempotency_key
from ._options import Retry, Span, StepOptions
from ._steps import AsyncStep, Attempt
from ._waits import timed, wait_for

T = TypeVar("T")

#: A request arrives as a signal with this prefix.
PREFIX = "request."
#: The defaults of the engine: ``published_bytes_max``, ``published_names_max``.
PUBLISHED_BYTES_MAX = 64 * 1024
PUBLISHED_NAMES_MAX = 32
#: Attempts to signal another run that has too much unread mail.
_ATTEMPTS = 10


def publish(name: str, value: Any) -> Coroutine[Any, Any, None]:
    """Shows a value to readers outside: :meth:`RunHandle.published` returns the latest one under a name.

    A run may publish under 32 names, values of up to 64 KiB.
    """
    arm = arm_here("publish")
    execution = arm.execution
    data = execution.codec.encode(value)
    # Before the log is looked at: a replay refuses what was refused.
    size = len(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode())
    if size > PUBLISHED_BYTES_MAX:
        raise Misuse(
            f"the value {name} has {size} bytes, more than {PUBLISHED_BYTES_MAX}", code="GS0167", hint="publish a summary"
        )
    spot = arm.spot("publish", name)
    execution.published.add(name)
    if len(execution.published) > PUBLISHED_NAMES_MAX:
        raise Misuse(
            f"the run publishes under more than {PUBLISHED_NAMES_MAX} names", code="GS0167", hint="put them into one value"
        )
    return execution.call(_record(execution, spot, "published", "publish", {"name": name, "value": data}))  # type: ignore[no-any-return]


async def _record(execution: Execution, spot: Spot, kind: str, doing: str, fields: dict[str, Any]) -> None:
    """Appends an operation that may leave no event."""
    if execution.was_silent(spot):
        return
    op = execution.look(spot, kind)
    if op is None:
        await execution.gate()
        await execution.append({doing: {"path": spot.path, "ord": spot.ord, **fields}})
        op = execution.history.ops.get(spot.path)
    if op is not None:
        execution.used(spot.arm, op)


class IncomingRequest(Generic[T]):
    """A request to this run. Answer or refuse it."""

    def __init__(self, execution: Execution, id: str, name: str, value: T) -> None:
        self._execution = execution
        #: The id of the request.
        self.id = id
        #: The name of the request.
        self.name = name
        #: Its content.
        self.value = value

    def answer(self, answer: Any = None) -> Coroutine[Any, Any, None]:
        """Answers the request. The first answer counts."""
        return self._end("answer", self._execution.codec.encode(answer))

    def refuse(self, reason: str) -> Coroutine[Any, Any, None]:
        """Refuses the request; its sender gets the reason."""
        return self._end("refused", self._execution.worker.redacted_text(str(reason))[:4096])

    def _end(self, how: str, what: Any) -> Coroutine[Any, Any, None]:
        arm = arm_here("answer")
        spot = arm.spot("answer", self.name)
        fields = {"request": self.id, how: what}
        return self._execution.call(_record(self._execution, spot, "answered", "answer_request", fields))  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"IncomingRequest({self.name!r}, {self.value!r})"


async def received(execution: Execution, spot: Spot, data: dict[str, Any], hint: Any) -> IncomingRequest[Any] | None:
    """Reads a request; refuses it, and returns None, if its content does not fit."""
    name = data["name"][len(PREFIX) :]
    try:
        return IncomingRequest(execution, data["id"], name, execution.codec.decode(data.get("payload"), hint))
    except CodecError as error:
        fields = {"request": data["id"], "refused": f"the content does not fit: {error.message}"[:4096]}
    await _record(execution, spot.arm.spot("answer", name), "answered", "answer_request", fields)
    return None


class Requests(Generic[T]):
    """The requests of one name; see :func:`requests`."""

    def __init__(self, name: str, hint: Any, timeout: Span | None) -> None:
        self._name = checked(name)
        self._hint = hint
        self._timeout = timeout

    def next(self) -> Coroutine[Any, Any, IncomingRequest[T]]:
        """Waits for the next request. Raises :class:`WaitTimeout` after the timeout."""
        arm = arm_here("requests")
        return arm.execution.call(self._next(arm.execution, arm.spot(self._name)))  # type: ignore[no-any-return]

    async def _next(self, execution: Execution, spot: Spot) -> IncomingRequest[T]:
        # Without a schema: a request that does not fit must get a refusal, also if it came before the wait.
        wanted = timed({"signals": [PREFIX + self._name]}, self._timeout)
        while True:
            found = await wait_for(execution, spot, wanted)
            if found == "timer":
                raise WaitTimeout(f"no request {self._name} arrived in time")
            request = await received(execution, spot, found[1], self._hint)
            if request is not None:
                return request
            spot = spot.arm.spot(self._name)

    def __aiter__(self) -> AsyncIterator[IncomingRequest[T]]:
        return self

    def __anext__(self) -> Coroutine[Any, Any, IncomingRequest[T]]:
        return self.next()


@overload
def requests(name: str, *, timeout: Span | None = ...) -> Requests[Any]: ...
@overload
def requests(name: str, type: type[T], *, timeout: Span | None = ...) -> Requests[T]: ...
@overload
def requests(name: str, type: Any, *, timeout: Span | None = ...) -> Requests[Any]: ...
def requests(name: str, type: Any = Any, *, timeout: Span | None = None) -> Requests[Any]:
    """The requests of one name: ``await requests.next()``, or ``async for request in requests``.

    The sender of a request (:meth:`RunHandle.request`) waits for its answer. A request whose content does not fit ``type`` is
    refused to its sender.
    """
    return Requests(name, type, timeout)


def signal_run(run: str, name: str, payload: Any = None) -> Coroutine[Any, Any, None]:
    """Sends a signal to another run, exactly once. It is a step."""
    arm = arm_here("signal_run")
    execution = arm.execution
    data = execution.codec.encode(payload)

    async def send(run: str, name: str) -> None:
        found: Attempt = current_attempt.get()
        body = {"name": checked(name), "payload": data, "id": f"signal-{found.key}"}
        path = f"/v1/runs/{urllib.parse.quote(run, safe='')}/signal"
        while True:
            try:
                await execution.worker.transport.send("POST", path, body)
                return
            except Unreachable:
                await asyncio.sleep(0.5)
            except Problem as problem:
                if problem.status >= 500:
                    raise
                kind = Retryable if problem.code == "GS0109" else Terminal
                raise kind(problem.message, code=problem.code) from None

    options = StepOptions(Retry(attempts=_ATTEMPTS), depends=True)
    return AsyncStep(send, "signal_run", options).begin(name, (run, name), {})  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True)
class TraceContext:
    """The place of the calling code in a distributed trace (W3C)."""

    traceparent: str
    tracestate: str | None = None

    def headers(self) -> dict[str, str]:
        """The headers for calls of other systems."""
        found = {"traceparent": self.traceparent}
        if self.tracestate:
            found["tracestate"] = self.tracestate
        return found


def trace_context() -> TraceContext | None:
    """The trace context, in a workflow or a step; None if the starter of the run passed none."""
    attempt: Attempt | None = current_attempt.get()
    if attempt is not None and current_arm.get() is None:
        if attempt.trace is None:
            return None
        if attempt.key_parts is None:
            return TraceContext(attempt.trace["traceparent"], attempt.trace.get("tracestate"))
        return within(attempt.trace, idempotency_key(*attempt.key_parts))
    trace = arm_here("trace_context").execution.trace
    return None if trace is None else TraceContext(trace["traceparent"], trace.get("tracestate"))


def within(trace: dict[str, Any], key: str) -> TraceContext:
    """The context of the span of a step, by its idempotency key."""
    version, trace_id, _, flags = trace["traceparent"].split("-")
    span = digest("span", trace_id, key).hex()[:16]
    return TraceContext(f"{version}-{trace_id}-{span}-{flags}", trace.get("tracestate"))
