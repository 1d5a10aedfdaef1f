"""Waiting for the first of several events."""

from __future__ import annotations

import dataclasses
from typing import Any, Coroutine, Mapping, Sequence

from ._arms import arm_here
from ._children import ChildHandle, child_error
from ._errors import Failed
from ._execution import Execution
from ._paths import Spot
from ._options import Span
from ._talk import PREFIX, received
from ._waits import question, shape, timed, wait_for


@dataclasses.dataclass(frozen=True)
class Selected:
    """What came first: ``kind`` is ``signal``, ``request``, ``answer``, ``child`` or ``timeout``."""

    kind: str
    #: The name of the signal or request, or the id of the child.
    name: str | None = None
    #: The content, the :class:`IncomingRequest`, the answer, or the child's result.
    value: Any = None
    #: The failure of a child.
    failure: Failed | None = None


def select(
    name: str,
    *,
    signals: Mapping[str, Any] | Sequence[str] = (),
    requests: Mapping[str, Any] | Sequence[str] = (),
    children: Sequence[ChildHandle[Any]] = (),
    ask: tuple[str, Any] | None = None,
    timeout: Span | None = None,
) -> Coroutine[Any, Any, Selected]:
    """Waits for the first of several events, and records which one it was.

    ``signals``, ``requests``: names, or names with the types of their contents. ``ask``: prompt and type of a question with
    the name of the wait.
    """
    arm = arm_here("select")
    spot = arm.spot(name)
    types = _types(signals)
    types.update({PREFIX + known: hint for known, hint in _types(requests).items()})
    wanted: dict[str, Any] = {}
    if types:
        wanted["signals"] = list(types)
        schemas = {known: shape(arm.execution, hint) for known, hint in types.items() if not known.startswith(PREFIX)}
        wanted["schemas"] = {known: schema for known, schema in schemas.items() if schema is not None}
    handles = {handle.run_id: handle for handle in children}
    if handles:
        wanted["children"] = list(handles)
    if ask is not None:
        wanted["ask"] = question(arm.execution, ask[0], ask[1], None)
    waiting = _select(arm.execution, spot, name, timed(wanted, timeout), types, handles, ask[1] if ask else Any)
    return arm.execution.call(waiting)  # type: ignore[no-any-return]


def _types(names: Mapping[str, Any] | Sequence[str]) -> dict[str, Any]:
    return dict(names) if isinstance(names, Mapping) else {name: Any for name in names}


async def _select(
    execution: Execution,
    spot: Spot,
    place: str,
    wanted: dict[str, Any],
    types: dict[str, Any],
    handles: dict[str, ChildHandle[Any]],
    answer: Any,
) -> Selected:
    while True:
        found = await wait_for(execution, spot, wanted)
        if found == "timer":
            return Selected("timeout")
        kind, data = found
        name = data.get("name", "") if kind == "signal" else ""
        if not name.startswith(PREFIX) or name == PREFIX:
            break
        request = await received(execution, spot, data, types.get(name, Any))
        if request is not None:
            return Selected("request", request.name, request)
        spot = spot.arm.spot(place)
    if kind == "signal":
        value = execution.value(data.get("payload"), types.get(name, Any), f"the signal for {spot.path}")
        return Selected("signal", name, value)
    if kind == "answer":
        return Selected("answer", None, execution.value(data.get("answer"), answer, f"the answer to {spot.path}"))
    run = data["run"]
    if kind == "failed":
        return Selected("child", run, None, child_error(run, data["failure"]))
    hint = handles[run].hint if run in handles else Any
    return Selected("child", run, execution.value(data.get("output"), hint, f"the result of {run}"))


def first(name: str, **kwargs: Any) -> Coroutine[Any, Any, Selected]:
    """Another name of :func:`select`."""
    return select(name, **kwargs)
