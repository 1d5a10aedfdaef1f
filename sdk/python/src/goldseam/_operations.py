"""The operations of a workflow: waits, sleeps, questions, children, progress, attributes, time and randomness.

Each takes its path when it is called. In an ``async def`` workflow, await the result; in a plain one, the call returns it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import inspect
import random as _random
import uuid as _uuid
from typing import Any, Callable, Coroutine, Mapping, NoReturn, TypeVar, overload

from ._arms import arm_here
from ._codec import form_of, schema_of
from ._errors import ChildFailed, Continuation, Failed, Misuse, WaitTimeout, exception_of, failure_of
from ._execution import Execution
from ._paths import Arm, Spot, current_arm, current_attempt
from ._steps import (
    AsyncStep,
    Attempt,
    Retry,
    Span,
    Step,
    StepOptions,
    SyncStep,
    millis,
    refuse,
    return_hint,
)
from ._workflows import Workflow

T = TypeVar("T")

# ------------------------------------------------------------------------------------------------ in a workflow


def in_workflow() -> bool:
    """Whether the calling code runs in a workflow, outside of its steps."""
    return current_arm.get() is not None


def run_id() -> str:
    """The id of the run, in a workflow or a step."""
    attempt_now = current_attempt.get()
    if attempt_now is not None and current_arm.get() is None:
        return str(attempt_now.run)
    return arm_here("run_id").execution.run


def version() -> int:
    """The version of the workflow that the run is on."""
    return arm_here("version").execution.version


def tag(key: str) -> str | None:
    """The value of a tag of the run."""
    return arm_here("tag").execution.tags.get(key)


def is_replaying() -> bool:
    """Whether the next operation is in the log already. For logging, not for decisions."""
    arm = arm_here("is_replaying")
    return arm.execution.is_replaying(arm)


def now() -> dt.datetime:
    """The time, the same in every replay: that of the last event that this part of the workflow has used."""
    arm = arm_here("now")
    return dt.datetime.fromtimestamp((arm.now or arm.execution.created_at) / 1000, dt.timezone.utc)


def random() -> _random.Random:
    """A source of randomness that is the same in every replay."""
    return _random.Random(int.from_bytes(arm_here("random").draw(), "big"))


def uuid() -> _uuid.UUID:
    """A random UUID that is the same in every replay."""
    return _uuid.UUID(bytes=arm_here("uuid").draw(), version=4)


def secret(name: str) -> "Secret":
    """A secret of the engine, in a workflow or a step. Its value appears in no log and no message."""
    arm = current_arm.get()
    attempt_now = current_attempt.get()
    secrets: Mapping[str, Secret] = {}
    if arm is not None:
        secrets = arm.execution.worker.secrets
    elif attempt_now is not None:
        secrets = attempt_now.secrets
    else:
        refuse("secret")
    found = secrets.get(name)
    if found is None:
        raise Misuse(f"the engine has no secret {name}", code="GS0121", hint="pass it: gs.open(url, secrets={...})")
    return found


class Secret:
    """A secret value. Only :meth:`reveal` shows it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Returns the value."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__


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
    schema = schema if schema is not None else schema_of(type)
    if schema is not None:
        wanted["schemas"] = {name: schema}
    return arm.execution.call(_signal(arm.execution, spot, _timed(wanted, timeout), type))


def _timed(wanted: dict[str, Any], timeout: Span | None) -> dict[str, Any]:
    if timeout is not None:
        wanted["timeout_ms"] = millis(timeout)
    return wanted


async def _signal(execution: Execution, spot: Spot, wanted: dict[str, Any], hint: Any) -> Any:
    found = await _wait(execution, spot, wanted)
    if found == "timer":
        raise WaitTimeout(f"no signal {wanted['signals'][0]} arrived in time")
    return execution.value(found[1].get("payload"), hint, f"the signal for {spot.path}")


async def _wait(execution: Execution, spot: Spot, wanted: dict[str, Any], kind: str = "wait") -> Any:
    op = execution.look(spot, kind)
    doing = None
    if op is None or not op.ended:
        await execution.gate()
        op = execution.history.ops.get(spot.path)
        if op is None or (kind == "child" and op.first == op.last):
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
    wanted = _timed({"ask": {"prompt": prompt, "form": form_of(type, choices)}}, timeout)
    return arm.execution.call(_ask(arm.execution, spot, wanted, str if choices is not None else type))


async def _ask(execution: Execution, spot: Spot, wanted: dict[str, Any], hint: Any) -> Any:
    found = await _wait(execution, spot, wanted)
    if found == "timer":
        raise WaitTimeout(f"no answer to {spot.path} arrived in time")
    return execution.value(found[1].get("answer"), hint, f"the answer to {spot.path}")


@dataclasses.dataclass(frozen=True)
class Selected:
    """What came first: ``kind`` is ``signal``, ``answer``, ``child`` or ``timeout``."""

    kind: str
    #: The name of the signal, or the id of the child.
    name: str | None = None
    #: The content, the answer, or the child's result.
    value: Any = None
    #: The failure of a child.
    failure: Failed | None = None


def select(
    name: str,
    *,
    signals: Mapping[str, Any] | list[str] | tuple[str, ...] = (),
    children: "list[ChildHandle] | tuple[ChildHandle, ...]" = (),
    ask: "tuple[str, Any] | None" = None,
    timeout: Span | None = None,
) -> Coroutine[Any, Any, Selected]:
    """Waits for the first of several events, and records which one it was.

    ``signals``: names, or names with the types of their contents. ``ask``: prompt and type of a question with the name of
    the wait.
    """
    arm = arm_here("select")
    spot = arm.spot(name)
    types: dict[str, Any] = dict(signals) if isinstance(signals, Mapping) else {known: Any for known in signals}
    wanted: dict[str, Any] = {}
    if types:
        wanted["signals"] = list(types)
        schemas = {known: schema_of(hint) for known, hint in types.items()}
        wanted["schemas"] = {known: schema for known, schema in schemas.items() if schema is not None}
    handles = {handle.run_id: handle for handle in children}
    if handles:
        wanted["children"] = list(handles)
    if ask is not None:
        wanted["ask"] = {"prompt": ask[0], "form": form_of(ask[1], None)}
    waiting = _select(arm.execution, spot, _timed(wanted, timeout), types, handles, ask[1] if ask else Any)
    return arm.execution.call(waiting)  # type: ignore[no-any-return]


async def _select(
    execution: Execution,
    spot: Spot,
    wanted: dict[str, Any],
    types: dict[str, Any],
    handles: "dict[str, ChildHandle]",
    answer: Any,
) -> Selected:
    found = await _wait(execution, spot, wanted)
    if found == "timer":
        return Selected("timeout")
    kind, data = found
    if kind == "signal":
        name = data["name"]
        value = execution.value(data.get("payload"), types.get(name, Any), f"the signal for {spot.path}")
        return Selected("signal", name, value)
    if kind == "answer":
        return Selected("answer", None, execution.value(data.get("answer"), answer, f"the answer to {spot.path}"))
    run = data["run"]
    if kind == "failed":
        return Selected("child", run, None, _child_error(run, data["failure"]))
    hint = handles[run].hint if run in handles else Any
    return Selected("child", run, execution.value(data.get("output"), hint, f"the result of {run}"))


def first(name: str, **kwargs: Any) -> Coroutine[Any, Any, Selected]:
    """Another name of :func:`select`."""
    return select(name, **kwargs)


# ------------------------------------------------------------------------------------------------------ children


class ChildHandle:
    """A started child."""

    def __init__(self, execution: Execution, spot: Spot, run: str, hint: Any) -> None:
        self._execution = execution
        self._spot = spot
        #: The id of the child.
        self.run_id = run
        self.hint = hint

    def result(self) -> Coroutine[Any, Any, Any]:
        """Waits for the child's result."""
        return self._execution.call(  # type: ignore[no-any-return]
            _child_result(self._execution, self._spot, self.run_id, self.hint)
        )


def _child_error(run: str, failure: Mapping[str, Any]) -> Failed:
    error = exception_of(failure, ChildFailed)
    assert isinstance(error, ChildFailed)
    error.run = run
    return error


async def _begin_child(execution: Execution, spot: Spot, workflow: str, data: Any) -> str:
    op = execution.look(spot, "child")
    if op is None:
        await execution.gate()
        await execution.append({"child": {"path": spot.path, "ord": spot.ord, "workflow": workflow, "input": data}})
        op = execution.history.ops[spot.path]
    execution.used(spot.arm, op)
    assert op.child is not None
    return op.child


async def _child_result(execution: Execution, spot: Spot, run: str, hint: Any) -> Any:
    found = await _wait(execution, spot, {"children": [run]}, "child")
    kind, data = found
    if kind == "failed":
        raise _child_error(run, data["failure"])
    return execution.value(data.get("output"), hint, f"the result of child {run}")


async def _child(execution: Execution, spot: Spot, workflow: str, data: Any, hint: Any) -> Any:
    run = await _begin_child(execution, spot, workflow, data)
    return await _child_result(execution, spot, run, hint)


async def _start_child(execution: Execution, spot: Spot, workflow: str, data: Any, hint: Any) -> ChildHandle:
    return ChildHandle(execution, spot, await _begin_child(execution, spot, workflow, data), hint)


def _child_call(
    what: str, name: str, workflow: "Workflow[Any, Any] | str", args: tuple[Any, ...], kwargs: Mapping[str, Any], key: object
) -> tuple[Execution, Spot, str, Any, Any]:
    arm = arm_here(what)
    execution = arm.execution
    spot = arm.spot(name, key)
    if isinstance(workflow, Workflow):
        return execution, spot, workflow.name, workflow.document(execution.codec, args, kwargs), workflow.hint
    if kwargs or len(args) > 1:
        raise Misuse(f"{what} by name takes one argument", hint="pass the workflow itself, or one value")
    return execution, spot, workflow, execution.codec.encode(args[0]) if args else None, Any


def child(name: str, workflow: "Workflow[Any, T] | str", *args: Any, **kwargs: Any) -> Coroutine[Any, Any, T]:
    """Starts a child run and waits for its result. Raises :class:`ChildFailed`."""
    execution, spot, label, data, hint = _child_call("child", name, workflow, args, kwargs, None)
    return execution.call(_child(execution, spot, label, data, hint))  # type: ignore[no-any-return]


def start_child(name: str, workflow: "Workflow[Any, Any] | str", *args: Any, **kwargs: Any) -> Coroutine[Any, Any, ChildHandle]:
    """Starts a child run without waiting for it."""
    execution, spot, label, data, hint = _child_call("start_child", name, workflow, args, kwargs, None)
    return execution.call(_start_child(execution, spot, label, data, hint))  # type: ignore[no-any-return]


def continue_as_new(value: Any = None) -> NoReturn:
    """Continues the run with other input and an empty history. Raises; nothing after it is executed."""
    arm_here("continue_as_new")
    raise Continuation(value)


# ----------------------------------------------------------------------------------------------- remote steps


def remote(
    name: str,
    payload: Any = None,
    type: Any = Any,
    *,
    queue: str | None = None,
    priority: int = 0,
    retry: Retry | int | None = None,
    heartbeat_timeout: Span | None = None,
    key: object = None,
) -> Coroutine[Any, Any, Any]:
    """A step that any worker of a queue executes as a task, in this process or another, in any language."""
    arm = arm_here("remote")
    spot = arm.spot(name, key)
    policy = Retry(attempts=retry) if isinstance(retry, int) else retry or Retry()
    fields: dict[str, Any] = {"payload": arm.execution.codec.encode(payload), "retry": policy.document()}
    if queue is not None:
        fields["queue"] = queue
    if priority:
        fields["priority"] = priority
    if heartbeat_timeout is not None:
        fields["silence_ms"] = millis(heartbeat_timeout)
    return arm.execution.call(_remote(arm.execution, spot, fields, type))  # type: ignore[no-any-return]


async def _remote(execution: Execution, spot: Spot, fields: dict[str, Any], hint: Any) -> Any:
    op = execution.look(spot, "step")
    while True:
        if op is not None and op.ended:
            return execution.result(spot, op, hint)
        await execution.gate()
        op = execution.history.ops.get(spot.path)
        if op is None or op.scheduled:
            if op is not None and op.due is not None:
                await execution.until(spot.path, op.due)
                await execution.gate()
            number = 1 if op is None else op.attempt + 1
            base = {"path": spot.path, "ord": spot.ord, "attempt": number}
            await execution.append({"step_handed_out": {**base, **fields}})
        await execution.ended_elsewhere(spot.path)
        op = execution.history.ops.get(spot.path)


# ------------------------------------------------------------------------------------------- progress and others


def progress(message: str) -> Coroutine[Any, Any, None]:
    """Records a progress message for people."""
    arm = arm_here("progress")
    spot = arm.spot("progress")
    text = arm.execution.worker.redacted_text(str(message))[:4096]
    return arm.execution.call(_record(arm.execution, spot, "progress", {"message": text}))  # type: ignore[no-any-return]


def set_attribute(name: str, value: str | int | float | bool | list[str]) -> Coroutine[Any, Any, None]:
    """Sets an attribute of the run, to search by."""
    arm = arm_here("set_attribute")
    spot = arm.spot("attributes")
    fields = {"set": {name: arm.execution.codec.encode(value)}}
    return arm.execution.call(_record(arm.execution, spot, "attributes", fields))  # type: ignore[no-any-return]


def remove_attribute(name: str) -> Coroutine[Any, Any, None]:
    """Removes an attribute of the run."""
    arm = arm_here("remove_attribute")
    spot = arm.spot("attributes")
    return arm.execution.call(  # type: ignore[no-any-return]
        _record(arm.execution, spot, "attributes", {"removed": [name]})
    )


async def _record(execution: Execution, spot: Spot, kind: str, fields: dict[str, Any]) -> None:
    op = execution.look(spot, kind)
    if op is None:
        await execution.gate()
        await execution.append({kind: {"path": spot.path, "ord": spot.ord, **fields}})
        op = execution.history.ops[spot.path]
    execution.used(spot.arm, op)


def changed(name: str) -> bool:
    """Whether this run has a change of the code: true for new runs, false for runs that went past this place before."""
    arm = arm_here("changed")
    known = arm.changes.get(name)
    if known is not None:
        return known
    execution = arm.execution
    path = arm.inside(name)
    if path in execution.history.changes:
        answer = True
    elif execution.is_replaying(arm) or execution.mode == "undo":
        answer = False
    else:
        answer = True
        execution.note({"change": {"path": path, "ord": arm.ord}})
    arm.changes[name] = answer
    return answer


@contextlib.contextmanager
def _inside(arm: Arm) -> Any:
    token = current_arm.set(arm)
    try:
        yield
    finally:
        current_arm.reset(token)


def arm(name: str, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, key: object = None) -> Coroutine[Any, Any, T]:
    """Names a parallel part: ``asyncio.gather(gs.arm("left", left), gs.arm("right", right))``.

    Tasks get such parts by themselves; a name of your own keeps the paths if a function is renamed.
    """
    own = arm_here("arm").part(name, key)

    async def run() -> T:
        with _inside(own):
            return await function(*args)

    return run()


def group(
    name: str, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, key: object = None
) -> Coroutine[Any, Any, T]:
    """A step that contains operations. Once it is complete, its inner operations are not replayed."""
    here = arm_here("group")
    spot = here.spot(name, key)
    return _group(here.execution, spot, function, args)


async def _group(execution: Execution, spot: Spot, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    hint = return_hint(function)
    op = execution.look(spot, "step")
    if op is not None and op.ended:
        return execution.result(spot, op, hint)
    base = {"path": spot.path, "ord": spot.ord, "attempt": 1, "group": True}
    try:
        with _inside(Arm(execution, spot.path)):
            value = await function(*args)
        doing = {"step_completed": {**base, "output": execution.codec.encode(value)}}
    except Exception as error:
        failure = execution.worker.redacted(failure_of(error))
        doing = {"step_failed": {**base, "failure": failure}}
    await execution.append(doing)
    return execution.result(spot, execution.history.ops[spot.path], hint)


def run_function(
    name: str,
    function: Callable[..., Any],
    *args: Any,
    key: object = None,
    retry: Retry | int | None = None,
    timeout: Span | None = None,
    heartbeat_timeout: Span | None = None,
    at_most_once: bool = False,
    undo: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> Coroutine[Any, Any, Any]:
    """Executes any function as a step, without a decorator."""
    options = StepOptions.of(retry, timeout, heartbeat_timeout, at_most_once, False)
    kind: type[Step[Any, Any]] = AsyncStep if inspect.iscoroutinefunction(function) else SyncStep
    made = kind(function, name, options)
    if undo is not None:
        made.undo(undo)
    return made.begin(key, args, kwargs)  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------------------------ in a step


def attempt() -> Attempt:
    """The attempt at the step that runs now."""
    found: Attempt | None = current_attempt.get()
    return found if found is not None else refuse("attempt")


def idempotency_key() -> str:
    """A key for other systems, in a step: the same for every attempt and every recovery, new after a jump or a retry."""
    return attempt().key


def heartbeat(details: Any = None) -> None:
    """Reports in a step that it is alive, for steps with ``heartbeat_timeout``."""
    attempt().heartbeat(details)

