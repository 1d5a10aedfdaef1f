"""Steps and workflows: decorators, options, and the execution of attempts."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import inspect
import time
import types
from typing import Any, Callable, Coroutine, Generic, Mapping, NoReturn, ParamSpec, TypeVar, overload

from ._arms import arm_here
from ._errors import CodecError, Continuation, Diverged, Evicted, Exited, Misuse, Problem, failure_of, guarded
from ._execution import Execution
from ._functions import Hints, checked_function, name_of
from ._history import Op
from ._options import Retry, Span, StepOptions, policy_of, positive
from ._paths import Spot, checked, current_arm, current_attempt, digest, idempotency_key

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Attempt:
    """The attempt at a step that runs now; see :func:`goldseam.attempt`."""

    __slots__ = ("number", "_key", "run", "path", "beat_at", "details", "last", "secrets", "trace")

    def __init__(self, number: int, key: str | tuple[str, int, str], run: str, path: str) -> None:
        #: The number of the attempt, from 1.
        self.number = number
        self._key = key
        #: The id of the run.
        self.run = run
        #: The path of the step.
        self.path = path
        self.beat_at = time.monotonic()
        self.details: Any = None
        self.last: Any = None
        self.secrets: Mapping[str, Any] = {}
        #: The trace context of the run; of the step itself if another process computed it.
        self.trace: dict[str, Any] | None = None

    @property
    def key_parts(self) -> tuple[str, int, str] | None:
        """What the idempotency key is made of; None if another process computed it."""
        return None if isinstance(self._key, str) else self._key

    @property
    def key(self) -> str:
        """The idempotency key: the same for every attempt and every recovery."""
        return self._key if isinstance(self._key, str) else idempotency_key(*self._key)

    def heartbeat(self, details: Any = None) -> None:
        """Reports that the attempt is alive. ``details`` reach the next attempt in this process."""
        self.beat_at = time.monotonic()
        if details is not None:
            self.details = details

    def last_heartbeat(self) -> Any:
        """The details of the last heartbeat of an earlier attempt in this process, or None."""
        return self.last


@dataclasses.dataclass(frozen=True)
class NotDone:
    """A probe found that the effect of an interrupted attempt did not happen: the step runs again."""


@dataclasses.dataclass(frozen=True)
class Done(Generic[T]):
    """A probe found that the effect happened, with this result."""

    value: T


class _TimedOut(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Step(Generic[P, R]):
    """A step: a function whose result is durable. Calling it in a workflow is the step; elsewhere it is a plain call."""

    _goldseam = "step"

    def __init__(self, function: Callable[P, Any], name: str | None, options: StepOptions) -> None:
        checked_function(function, "step")
        functools.update_wrapper(self, function)  # type: ignore[arg-type]
        self.function = function
        self.name = checked(name or name_of(function).lstrip("_").strip("<>") or "step")
        self.options = options
        self.is_async = inspect.iscoroutinefunction(function)
        self._undo: Callable[..., Any] | None = None
        self._probe: Callable[..., Any] | None = None
        self._hints = Hints(function)

    def __repr__(self) -> str:
        return f"<step {self.name}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A step that is a method: its object is not part of the log."""
        if instance is None:
            return self
        bound = type(self)(types.MethodType(self.function, instance), self.name, self.options)
        bound._undo, bound._probe = self._undo, self._probe
        return bound

    @property
    def hint(self) -> Any:
        """The type of the result."""
        return self._hints.get("return")

    def undo(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the compensation: it gets the step's result if the run fails later. Use it as a decorator."""
        self._undo = function
        return function

    def probe(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the probe: it gets the step's arguments after a crash in the middle of an attempt, and returns
        :class:`Done` or :class:`NotDone`. Use it as a decorator."""
        self._probe = function
        return function

    def with_options(
        self,
        *,
        name: str | None = None,
        retry: Retry | int | None = None,
        timeout: Span | None = None,
        heartbeat_timeout: Span | None = None,
        at_most_once: bool | None = None,
    ) -> "Step[P, R]":
        """Returns the same step with other options."""
        old = self.options
        changes: dict[str, Any] = {}
        if retry is not None:
            changes["retry"] = policy_of(retry)
        if timeout is not None:
            changes["timeout"] = positive("timeout", timeout)
        if heartbeat_timeout is not None:
            changes["heartbeat_timeout"] = positive("heartbeat_timeout", heartbeat_timeout)
        if at_most_once is not None:
            changes["at_most_once"] = at_most_once
        other = type(self)(self.function, name or self.name, dataclasses.replace(old, **changes))
        other._undo, other._probe = self._undo, self._probe
        return other

    def key(self, key: object) -> "KeyedStep[P, R]":
        """Gives the next call a key: ``pick.key(line)(line)`` has the path ``pick:LINE``."""
        return KeyedStep(self, key)

    def begin(self, key: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Calls the step: takes its path now, and returns what executes it."""
        if current_arm.get() is None:
            return self.function(*args, **kwargs)
        arm = arm_here(f"step {self.name}")
        spot = arm.spot(self.name, key)
        body: Any = run_step(arm.execution, spot, self, args, kwargs)
        # Python names it if it is never awaited.
        body.__qualname__ = f"step {self.name}"
        arm.execution.unawaited.add(spot.path)
        return arm.execution.call(body)


class AsyncStep(Step[P, R]):
    """A step that is an ``async def``."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return self.begin(None, args, kwargs)  # type: ignore[no-any-return]

    aio = __call__


class SyncStep(Step[P, R]):
    """A step that is a plain ``def``. It runs in a thread.

    In an ``async def`` workflow, await it: ``await charge(order)`` or, for a type checker, ``await charge.aio(order)``.
    In a plain workflow, and outside of workflows, ``charge(order)`` returns the result.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.begin(None, args, kwargs)

    def aio(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Calls the step in an ``async def`` workflow."""
        return self.begin(None, args, kwargs)  # type: ignore[no-any-return]

    def sync(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the step in a plain workflow, or the function outside of workflows."""
        return self.begin(None, args, kwargs)  # type: ignore[no-any-return]


class KeyedStep(Generic[P, R]):
    """A step with a key; see :meth:`Step.key`."""

    def __init__(self, step: Step[P, R], key: object) -> None:
        self._step = step
        self._key = key

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return self._step.begin(self._key, args, kwargs)  # type: ignore[no-any-return]


@overload
def step(function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...  # type: ignore[overload-overlap]
@overload
def step(function: Callable[P, R], /) -> SyncStep[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    retry: Retry | int | None = None,
    timeout: Span | None = None,
    heartbeat_timeout: Span | None = None,
    at_most_once: bool = False,
    depends: bool = False,
) -> "StepDecorator": ...
def step(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    retry: Retry | int | None = None,
    timeout: Span | None = None,
    heartbeat_timeout: Span | None = None,
    at_most_once: bool = False,
    depends: bool = False,
) -> Any:
    """Makes a function a step: called in a workflow, its result is durable, and it is not called again after a crash.

    ``retry``: a :class:`Retry`, or a number of attempts. ``timeout``: the longest time of an attempt.
    ``heartbeat_timeout``: the longest time without :func:`goldseam.heartbeat`. ``at_most_once``: never begins a second time;
    after a crash in the middle, the step fails with the code ``outcome-unknown`` unless a probe knows the outcome.
    ``depends``: compares the arguments with those in the log, and parks the run if they differ.
    """
    options = StepOptions.of(retry, timeout, heartbeat_timeout, at_most_once, depends)
    decorator = StepDecorator(name, options)
    return decorator if function is None else decorator(function)


class StepDecorator:
    """Makes steps with the same options."""

    def __init__(self, name: str | None, options: StepOptions) -> None:
        self._name = name
        self._options = options

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncStep[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncStep[P, R]: ...
    def __call__(self, function: Any, /) -> Any:
        kind: type[Step[Any, Any]] = AsyncStep if inspect.iscoroutinefunction(function) else SyncStep
        return kind(function, self._name, self._options)


async def run_step(
    execution: Execution, spot: Spot, step: Step[Any, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Executes a step: returns at once if the log has its result."""
    execution.unawaited.discard(spot.path)
    options = step.options
    fingerprint = _fingerprint(execution, args, kwargs) if options.depends else None
    if step._undo is not None:
        what = f"the result of step {spot.path}"
        execution.undos[spot.path] = undo_with(execution, spot.path, step._undo, step.hint, options.retry, what)
    op = execution.look(spot, "step", fingerprint)
    details: Any = None
    while True:
        if op is not None and op.ended:
            return execution.result(spot, op, step.hint)
        await execution.gate()
        attempt = 1 if op is None else op.attempt + 1
        if op is not None and op.scheduled and op.due is not None:
            await execution.until(spot.path, op.due)
            await execution.gate()
        elif op is not None and op.started:
            found = await _after_crash(execution, spot, step, op, args, kwargs)
            if found:
                op = execution.history.ops.get(spot.path)
                continue
        details = await _attempt(execution, spot, step, attempt, fingerprint, details, args, kwargs)
        op = execution.history.ops.get(spot.path)


def _fingerprint(execution: Execution, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    import json

    data = execution.codec.encode([list(args), dict(kwargs)])
    return digest("input", json.dumps(data, sort_keys=True, separators=(",", ":"))).hex()


async def _after_crash(
    execution: Execution, spot: Spot, step: Step[Any, Any], op: Op, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    """Handles an attempt that a crash interrupted. Returns whether the step has ended."""
    base = {"path": spot.path, "ord": spot.ord, "attempt": op.attempt}
    if step._probe is not None:
        attempt = Attempt(op.attempt, _key(execution, spot.path), execution.run, spot.path)
        execution.busy += 1
        try:
            found = await call_user(execution, step._probe, attempt, args, kwargs)
        except Exception as error:
            failure = execution.worker.redacted(failure_of(error))
            await execution.append({"step_failed": {**base, "failure": failure, "retry": step.options.retry.document()}})
            return True
        finally:
            execution.busy -= 1
        if isinstance(found, Done):
            output = execution.codec.encode(found.value)
            await execution.append({"step_completed": {**base, "output": output, "undo": step._undo is not None}})
            return True
        if isinstance(found, NotDone):
            return False
        raise Misuse(f"the probe of step {spot.path} returned {found!r}", hint="return gs.Done(result) or gs.NotDone()")
    if not step.options.at_most_once:
        return False
    message = "a crash interrupted its only attempt; it is unknown whether it happened"
    failure = {"class": "terminal", "message": message, "code": "outcome-unknown"}
    await execution.append({"step_failed": {**base, "failure": failure}})
    return True


def _key(execution: Execution, path: str) -> tuple[str, int, str]:
    """What an idempotency key is made of; most steps never ask for it."""
    return execution.run, execution.generation, path


async def _attempt(
    execution: Execution,
    spot: Spot,
    step: Step[Any, Any],
    number: int,
    fingerprint: str | None,
    details: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Makes one attempt, and appends its result. Returns the details of its last heartbeat."""
    options = step.options
    base: dict[str, Any] = {"path": spot.path, "ord": spot.ord, "attempt": number}
    if fingerprint is not None:
        base["input"] = fingerprint
    attempt = Attempt(number, _key(execution, spot.path), execution.run, spot.path)
    attempt.last = details
    execution.busy += 1
    long_steps = execution.worker.long_steps
    try:
        if options.at_most_once:
            await execution.append({"step_started": dict(base)})
        began = time.monotonic()
        if not options.at_most_once:
            long_steps.began(attempt, began, execution, base)
        doing: dict[str, Any]
        try:
            if options.timeout is None and options.heartbeat_timeout is None:
                value = await call_user(execution, step.function, attempt, args, kwargs, step.is_async)
            else:
                value = await _watched(execution, step, attempt, args, kwargs)
            output = execution.codec.encode(value)
            doing = {"step_completed": {**base, "output": output}}
            if step._undo is not None:
                doing["step_completed"]["undo"] = True
        except BaseException as error:
            if not _is_failure(error) or (isinstance(error, asyncio.CancelledError) and execution.over):
                raise
            doing = {"step_failed": {**base, "failure": _failure(execution, error)}}
            retry = options.retry.document()
            if retry is not None and not isinstance(error, CodecError):
                doing["step_failed"]["retry"] = retry
            if isinstance(error, _TimedOut):
                doing["step_failed"]["timeout"] = error.code
        finally:
            long_steps.ended(attempt)
        took = int((time.monotonic() - began) * 1000)
        if took:
            next(iter(doing.values()))["took_ms"] = took
        try:
            await execution.append(doing)
        except (Problem, CodecError) as problem:
            # The result is too large or unreadable: the step fails with that.
            failure = {"class": "terminal", "message": problem.message, "code": problem.code or "GS0102"}
            await execution.append({"step_failed": {**base, "failure": failure}})
    finally:
        execution.busy -= 1
        execution.settle()
    return attempt.details if attempt.details is not None else details


def _is_failure(error: BaseException) -> bool:
    """Whether an exception is the failure of a step, and not the end of the code around it."""
    if isinstance(error, asyncio.CancelledError):
        # The step awaited something that was cancelled, unless its own task is. Python 3.10 does not say which.
        cancelling = getattr(asyncio.current_task(), "cancelling", None)
        return cancelling is not None and cancelling() == 0
    return not isinstance(error, (Evicted, Diverged, Continuation, KeyboardInterrupt, GeneratorExit))


def _failure(execution: Execution, error: BaseException) -> dict[str, Any]:
    if isinstance(error, _TimedOut):
        text = {
            "timeout": "the attempt took longer than its timeout",
            "heartbeat-timeout": "the attempt was silent for longer than its heartbeat limit",
        }[error.code]
        return {"class": "retryable", "message": text, "code": error.code}
    failure = execution.worker.redacted(failure_of(error))
    if isinstance(error, (CodecError, Misuse)):
        failure["class"] = "terminal"
    return failure


async def call_user(
    execution: Execution,
    function: Callable[..., Any],
    attempt: Attempt,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    is_async: bool | None = None,
) -> Any:
    """Calls the user's function: an ``async def`` on the loop, a plain one in a thread."""
    attempt.secrets = execution.worker.secrets
    attempt.trace = execution.trace
    if inspect.iscoroutinefunction(function) if is_async is None else is_async:
        arm = current_arm.set(None)
        token = current_attempt.set(attempt)
        try:
            return await function(*args, **kwargs)
        except SystemExit as error:
            # It would end the event loop.
            raise Exited(error) from None
        finally:
            current_attempt.reset(token)
            current_arm.reset(arm)
    context = contextvars.copy_context()
    context.run(current_arm.set, None)
    context.run(current_attempt.set, attempt)
    body = functools.partial(context.run, guarded, functools.partial(function, *args, **kwargs))
    value = await asyncio.wrap_future(execution.worker.threads.submit(body))
    if inspect.isawaitable(value):
        return await value
    return value


async def _watched(
    execution: Execution, step: Step[Any, Any], attempt: Attempt, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Makes an attempt within its timeout and its heartbeat limit."""
    options = step.options
    arm = current_arm.set(None)
    try:
        task = execution.loop.create_task(call_user(execution, step.function, attempt, args, kwargs))
    finally:
        current_arm.reset(arm)
    began = attempt.beat_at = time.monotonic()
    try:
        while True:
            now = time.monotonic()
            limits = []
            if options.timeout is not None:
                limits.append((began + options.timeout, "timeout"))
            if options.heartbeat_timeout is not None:
                limits.append((attempt.beat_at + options.heartbeat_timeout, "heartbeat-timeout"))
            due, code = min(limits)
            if due <= now:
                raise _TimedOut(code)
            done, _ = await asyncio.wait({task}, timeout=due - now)
            if done:
                return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=1.0 if step.is_async else 0.0)
        if task.done() and not task.cancelled():
            task.exception()


def undo_with(
    execution: Execution, path: str, undo: Callable[..., Any], hint: Any, retry: Retry, what: str
) -> Callable[[Any], Coroutine[Any, Any, None]]:
    """Returns what undoes an operation from its recorded output, with the attempts of a retry policy."""

    async def run(output: Any) -> None:
        value = execution.value(output, hint, what)
        number = 1
        while True:
            attempt = Attempt(number, _key(execution, f"undo {path}"), execution.run, path)
            try:
                await call_user(execution, undo, attempt, (value,), {})
                return
            except Exception as error:
                terminal = failure_of(error).get("class") == "terminal"
                if terminal or number >= retry.attempts or execution.over:
                    raise
                await asyncio.sleep(retry.pause(number))
                number += 1

    return run


def refuse(what: str) -> NoReturn:
    """Refuses a call outside of a step."""
    raise Misuse(f"{what} was called outside of a step", hint="call it in the function of a step")

