"""Workflows: functions whose progress is durable."""

from __future__ import annotations

import functools
import inspect
import typing
from typing import Any, Callable, Coroutine, Generic, Mapping, ParamSpec, TypeVar, overload

from ._errors import CodecError, Misuse
from ._paths import checked, current_arm

P = ParamSpec("P")
R = TypeVar("R")


class Workflow(Generic[P, R]):
    """A workflow: a function whose progress is durable."""

    def __init__(self, function: Callable[P, Any], name: str | None, version: int, plan: tuple[str, ...]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = checked(name or function.__name__.lstrip("_"))
        if version < 1:
            raise Misuse(f"version {version} of workflow {self.name} is not 1 or more", code="GS0134")
        self.version = version
        self.plan = plan
        self.is_sync = not inspect.iscoroutinefunction(function)
        self.parameters = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        self._hints: dict[str, Any] | None = None

    @property
    def label(self) -> str:
        """Name and version, as workers register them."""
        return f"{self.name}@{self.version}"

    def hints(self) -> dict[str, Any]:
        """The types of the parameters and of the result."""
        if self._hints is None:
            try:
                self._hints = typing.get_type_hints(self.function)
            except Exception:
                self._hints = {}
        return self._hints

    @property
    def hint(self) -> Any:
        """The type of the result."""
        return self.hints().get("return", Any)

    def document(self, codec: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Returns the input of a run: the one argument, or a list of several, or null."""
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        values = [bound.arguments[parameter.name] for parameter in self.parameters]
        if len(values) <= 1:
            return codec.encode(values[0]) if values else None
        return [codec.encode(value) for value in values]

    def arguments(self, codec: Any, data: Any) -> tuple[Any, ...]:
        """Reads the input of a run."""
        hints = self.hints()
        if not self.parameters:
            return ()
        if len(self.parameters) == 1:
            return (codec.decode(data, hints.get(self.parameters[0].name, Any)),)
        if not isinstance(data, list) or len(data) > len(self.parameters):
            raise CodecError(f"{self.name} takes {len(self.parameters)} arguments, as a list")
        return tuple(codec.decode(item, hints.get(p.name, Any)) for item, p in zip(data, self.parameters))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Outside of a workflow a plain call. In a workflow it starts a child run, named like this workflow."""
        if current_arm.get() is None:
            return self.function(*args, **kwargs)
        from ._operations import child

        return child(self.name, self, *args, **kwargs)


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
