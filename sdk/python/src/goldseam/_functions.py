"""Functions of users: what can be a step or a workflow, and the types of its parameters and result."""

from __future__ import annotations

import inspect
import logging
import sys
import typing
from typing import Any, Callable, Mapping

from ._errors import Misuse

log = logging.getLogger("goldseam")


def checked_function(function: Any, what: str) -> None:
    """Refuses what cannot be a step or a workflow."""
    if getattr(function, "_goldseam", None) is not None:
        raise Misuse(f"{name_of(function)} is a {function._goldseam} already", hint="use one decorator")
    if isinstance(function, type) or not callable(function):
        raise Misuse(f"{function!r} is not a function, so it cannot be a {what}", hint="decorate a def or an async def")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        hint = "return a list, or make each item a step of its own"
        raise Misuse(f"{name_of(function)} is a generator, so it cannot be a {what}", hint=hint)


def name_of(function: Any) -> str:
    """The name of a function; that of its class if it has none."""
    return str(getattr(function, "__name__", None) or type(function).__name__)


class Hints:
    """The types of a function's parameters and result, from its annotations.

    They are resolved when the function is decorated, so that they may name classes of an enclosing function. What is not
    defined by then is resolved at the first use.
    """

    __slots__ = ("_function", "_found", "_locals")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._locals = _callers_locals()
        self._found: dict[str, Any] | None = None
        try:
            self._found = typing.get_type_hints(function, None, dict(self._locals) if self._locals else None)
            self._locals = None
        except Exception:
            pass

    def get(self, name: str) -> Any:
        """The type of a parameter, or of the result (``return``); Any without an annotation."""
        if self._found is None:
            self._found = self._resolve()
            self._locals = None
        return self._found.get(name, Any)

    def _resolve(self) -> dict[str, Any]:
        function, found = self._function, {}
        names = dict(self._locals) if self._locals else None
        try:
            return typing.get_type_hints(function, None, names)
        except Exception:
            pass
        for name, annotation in getattr(function, "__annotations__", {}).items():
            holder = type("holder", (), {"__annotations__": {name: annotation}})
            try:
                found.update(typing.get_type_hints(holder, getattr(function, "__globals__", {}), names))
            except Exception as error:
                log.warning("the type %s of %s is unknown (%s): its values stay JSON data", annotation, name_of(function), error)
        return found


def _callers_locals() -> Mapping[str, Any] | None:
    """The local names of the code that decorates, if that is a function."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__package__") == __package__:
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None if frame.f_locals is frame.f_globals else frame.f_locals
