"""The operations of a workflow: remote steps, groups, progress, attributes, time and randomness.

Each takes its path when it is called. In an ``async def`` workflow, await the result; in a plain one, the call returns it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import inspect
import random as _random
import uuid as _uuid
from typing import Any, Callable, Coroutine, Mapping, NoReturn, TypeVar

from ._arms import arm_here
from ._errors import Continuation, Misuse, failure_of
from ._execution import Execution
from ._functions import Hints
from ._paths import Arm, Spot, current_arm, current_attempt
from ._options import Retry, Span, StepOptions, millis
from ._steps import AsyncStep, Attempt, Step, SyncStep, refuse, undo_with

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
    lane: str | None = None,
    retry: Retry | int | None = None,
    heartbeat_timeout: Span | None = None,
    undo: Callable[..., Any] | None = None,
    key: object = None,
) -> Coroutine[Any, Any, Any]:
    """A step that any worker of a queue executes as a task, in this process or another, in any language.

    ``lane``: at most one task of a lane is executed at a time. ``undo``: gets the result if the run fails later.
    """
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
    if lane is not None:
        fields["lane"] = lane
    if undo is not None:
        fields["undo"] = True
        what = f"the result of step {spot.path}"
        arm.execution.undos[spot.path] = undo_with(arm.execution, spot.path, undo, type, policy, what)
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
    hint = Hints(function).get("return")
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

