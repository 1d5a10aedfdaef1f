"""Child runs: recorded in the parent's log before they are created, so none is lost or duplicated."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Coroutine, Generic, Mapping, TypeVar

from ._arms import arm_here
from ._errors import ChildFailed, Failed, Misuse, exception_of
from ._execution import Execution
from ._paths import Spot
from ._options import Retry
from ._steps import undo_with
from ._waits import wait_for
from ._workflows import Workflow

T = TypeVar("T")


class ChildHandle(Generic[T]):
    """A started child."""

    def __init__(self, execution: Execution, spot: Spot, run: str, hint: Any, detached: bool = False) -> None:
        self._execution = execution
        self._spot = spot
        self._detached = detached
        #: The id of the child.
        self.run_id = run
        self.hint = hint

    def result(self) -> Coroutine[Any, Any, T]:
        """Waits for the child's result. Raises :class:`ChildFailed`."""
        if self._detached:
            raise Misuse(f"child {self.run_id} is detached: its end does not arrive", hint="start it without detached=True")
        return self._execution.call(  # type: ignore[no-any-return]
            _result(self._execution, self._spot, self.run_id, self.hint)
        )


@dataclasses.dataclass(frozen=True)
class _Call:
    """A call of a child, with the fields of its doing."""

    execution: Execution
    spot: Spot
    fields: dict[str, Any]
    hint: Any
    undo: Callable[..., Any] | None

    async def begin(self) -> str:
        execution, spot = self.execution, self.spot
        if self.undo is not None:
            undo = undo_with(execution, spot.path, self.undo, self.hint, Retry(), f"the result of child {spot.path}")
            execution.undos[spot.path] = undo
        op = execution.look(spot, "child")
        if op is None:
            await execution.gate()
            await execution.append({"child": {"path": spot.path, "ord": spot.ord, **self.fields}})
            op = execution.history.ops[spot.path]
        execution.used(spot.arm, op)
        assert op.child is not None
        return op.child

    async def handle(self) -> ChildHandle[Any]:
        return ChildHandle(self.execution, self.spot, await self.begin(), self.hint, bool(self.fields.get("detached")))

    async def result(self) -> Any:
        return await _result(self.execution, self.spot, await self.begin(), self.hint)


async def _result(execution: Execution, spot: Spot, run: str, hint: Any) -> Any:
    kind, data = await wait_for(execution, spot, {"children": [run]}, "child")
    if kind == "failed":
        raise child_error(run, data["failure"])
    return execution.value(data.get("output"), hint, f"the result of child {run}")


def child_error(run: str, failure: Mapping[str, Any]) -> Failed:
    """The failure of a child as an exception."""
    error = exception_of(failure, ChildFailed)
    assert isinstance(error, ChildFailed)
    error.run = run
    return error


_OPTIONS = ("id", "queue", "version", "priority", "tags", "attributes")


def _call(
    what: str,
    name: str,
    workflow: "Workflow[Any, Any] | str",
    args: tuple[Any, ...],
    options: Mapping[str, Any],
    kwargs: Mapping[str, Any],
) -> _Call:
    arm = arm_here(what)
    execution = arm.execution
    spot = arm.spot(name, options.get("key"))
    fields: dict[str, Any]
    hint: Any = Any
    if isinstance(workflow, Workflow):
        fields = {"workflow": workflow.name, "input": workflow.document(execution.codec, args, kwargs)}
        hint = workflow.hint
    elif kwargs or len(args) > 1:
        raise Misuse(f"{what} by name takes one argument", hint="pass the workflow itself, or one value")
    else:
        fields = {"workflow": workflow, "input": execution.codec.encode(args[0]) if args else None}
    start = {known: options[known] for known in _OPTIONS if options.get(known) is not None}
    if "attributes" in start:
        start["attributes"] = execution.codec.encode(dict(start["attributes"]))
    if start:
        fields["start"] = start
    if options.get("detached"):
        fields["detached"] = True
    undo = options.get("undo")
    if undo is not None:
        fields["undo"] = True
    return _Call(execution, spot, fields, hint, undo)


def child_of(workflow: Workflow[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Coroutine[Any, Any, T]:
    """A child run with the name of its workflow, from a plain call of the workflow."""
    call = _call("child", workflow.name, workflow, args, {}, kwargs)
    return call.execution.call(call.result())  # type: ignore[no-any-return]


def child(
    name: str,
    workflow: "Workflow[Any, T] | str",
    *args: Any,
    key: object = None,
    id: str | None = None,
    queue: str | None = None,
    version: int | None = None,
    priority: int | None = None,
    tags: Mapping[str, str] | None = None,
    attributes: Mapping[str, Any] | None = None,
    undo: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> Coroutine[Any, Any, T]:
    """Starts a child run and waits for its result. Raises :class:`ChildFailed`.

    ``id``, ``queue``, ``version``, ``priority``, ``tags``, ``attributes``: as in :meth:`Client.start`; the defaults are those of
    the parent. ``undo``: gets the child's result if this run fails later.
    """
    options = dict(
        key=key, id=id, queue=queue, version=version, priority=priority, tags=tags, attributes=attributes, undo=undo
    )
    call = _call("child", name, workflow, args, options, kwargs)
    return call.execution.call(call.result())  # type: ignore[no-any-return]


def start_child(
    name: str,
    workflow: "Workflow[Any, T] | str",
    *args: Any,
    key: object = None,
    id: str | None = None,
    queue: str | None = None,
    version: int | None = None,
    priority: int | None = None,
    tags: Mapping[str, str] | None = None,
    attributes: Mapping[str, Any] | None = None,
    undo: Callable[..., Any] | None = None,
    detached: bool = False,
    **kwargs: Any,
) -> Coroutine[Any, Any, ChildHandle[T]]:
    """Starts a child run without waiting for it; options as in :func:`child`.

    ``detached``: the child outlives this run. It is not cancelled with it, and its end does not arrive.
    """
    if detached and undo is not None:
        raise Misuse("a detached child cannot be undone", hint="leave out undo or detached")
    options = dict(
        key=key, id=id, queue=queue, version=version, priority=priority, tags=tags, attributes=attributes, undo=undo,
        detached=detached,
    )  # fmt: skip
    call = _call("start_child", name, workflow, args, options, kwargs)
    return call.execution.call(call.handle())  # type: ignore[no-any-return]


__all__ = ["ChildHandle", "child", "child_error", "child_of", "start_child"]
