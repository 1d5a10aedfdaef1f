"""Workflows: functions whose progress is durable."""

from __future__ import annotations

import functools
import inspect
import typing
from typing import Any, Callable, Coroutine, Generic, Mapping, ParamSpec, TypeVar, overload

from ._errors import CodecError, Misuse
from ._functions import Hints, checked_function, name_of
from ._paths import checked, current_arm

P = ParamSpec("P")
R = TypeVar("R")


class Workflow(Generic[P, R]):
    """A workflow: a function whose progress is durable."""

    _goldseam = "workflow"

    def __init__(self, function: Callable[P, Any], name: str | None, version: int, plan: tuple[str, ...]) -> None:
        checked_function(function, "workflow")
        functools.update_wrapper(self, function)
        self.function = function
        self.name = checked(name or name_of(function).lstrip("_"))
        if not isinstance(version, int) or version < 1:
            raise Misuse(f"version {version!r} of workflow {self.name} is not 1 or more", code="GS0134")
        self.version = version
        self.plan = plan
        self.is_sync = not inspect.iscoroutinefunction(function)
        self.parameters = list(inspect.signature(function).parameters.values())
        for parameter in self.parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise Misuse(f"workflow {self.name} takes {parameter}", hint="name its parameters: they are the input of the run")
        if self.parameters and self.parameters[0].name == "self":
            raise Misuse(f"workflow {self.name} is a method", hint="make it a function: an object is not part of the run")
        self.hints = Hints(function)

    @property
    def label(self) -> str:
        """Name and version, as workers register them."""
        return f"{self.name}@{self.version}"

    @property
    def hint(self) -> Any:
        """The type of the result."""
        return self.hints.get("return")

    def document(self, codec: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Returns the input of a run: the one argument, or a list of several, or null."""
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"workflow {self.name}: {error}") from None
        bound.apply_defaults()
        values = [self._written(codec, parameter.name, bound.arguments[parameter.name]) for parameter in self.parameters]
        if len(values) <= 1:
            return values[0] if values else None
        return values

    def _written(self, codec: Any, name: str, value: Any) -> Any:
        """Writes an argument. Refuses one that the workflow could not read: its run would be parked."""
        data = codec.encode(value)
        try:
            codec.decode(data, self.hints.get(name))
        except CodecError as error:
            raise CodecError(f"argument {name} of workflow {self.name}: {error.message}", hint="pass a value of its type") from None
        return data

    def __repr__(self) -> str:
        return f"<workflow {self.label}>"

    def arguments(self, codec: Any, data: Any) -> Callable[[], Any]:
        """Reads the input of a run, and returns the call of the function with it."""
        if len(self.parameters) > 1 and (not isinstance(data, list) or len(data) > len(self.parameters)):
            raise CodecError(f"{self.name} takes {len(self.parameters)} arguments, as a list")
        items = data if len(self.parameters) > 1 else [data]
        args: list[Any] = []
        named: dict[str, Any] = {}
        for item, parameter in zip(items, self.parameters):
            value = codec.decode(item, self.hints.get(parameter.name))
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                args.append(value)
        return functools.partial(self.function, *args, **named)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Outside of a workflow a plain call. In a workflow it starts a child run, named like this workflow."""
        if current_arm.get() is None:
            return self.function(*args, **kwargs)
        from ._children import child_of

        return child_of(self, args, kwargs)


@overload
def workflow(function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(function: Callable[P, R], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *, name: str | None = None, version: int = 1, plan: typing.Sequence[str] = ()
) -> "WorkflowDecorator": ...
def workflow(
    function: Any = None, /, *, name: str | None = None, version: int = 1, plan: typing.Sequence[str] = ()
) -> Any:
    """Makes a function a workflow. ``version`` from 1; ``plan`` names its steps if they are always the same."""
    decorator = WorkflowDecorator(name, version, tuple(plan))
    return decorator if function is None else decorator(function)


class WorkflowDecorator:
    """Makes workflows with the same options."""

    def __init__(self, name: str | None, version: int, plan: tuple[str, ...]) -> None:
        self._name = name
        self._version = version
        self._plan = plan

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Workflow[P, R]: ...
    def __call__(self, function: Any, /) -> Any:
        return Workflow(function, self._name, self._version, self._plan)
