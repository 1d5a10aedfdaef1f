"""Where code of a workflow runs: the arm of the calling code, and the arms of tasks."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

from ._errors import Evicted, Misuse
from ._paths import Arm, current_arm, current_attempt


def arm_here(what: str) -> Arm:
    """Returns the arm of the calling code. Refuses calls outside of a workflow, or from a foreign thread."""
    arm = current_arm.get()
    if arm is None:
        where = "inside of a step" if current_attempt.get() is not None else "outside of a workflow"
        raise Misuse(
            f"{what} was called {where}", hint="call it in the function of a workflow, or in a task that the function created"
        )
    execution = arm.execution
    if execution.workflow.is_sync:
        if execution.thread != threading.get_ident():
            raise Misuse(f"{what} was called from another thread than that of the workflow", hint="put the work into a step")
    elif _running_loop() is not execution.loop:
        raise Misuse(
            f"{what} was called from another thread or loop than that of the workflow",
            hint="put the work into a step; a step that is a plain function runs in a thread",
        )
    if execution.over:
        raise Evicted
    return arm


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def use_task_factory(loop: asyncio.AbstractEventLoop) -> None:
    """Installs the task factory, once for all workers of a loop."""
    factory = loop.get_task_factory()
    if not hasattr(factory, "goldseam_workers"):
        factory = task_factory(factory)
        loop.set_task_factory(factory)
    setattr(factory, "goldseam_workers", getattr(factory, "goldseam_workers") + 1)


def leave_task_factory(loop: asyncio.AbstractEventLoop) -> None:
    """Restores the task factory of the program when the last worker of a loop leaves."""
    factory = loop.get_task_factory()
    workers = getattr(factory, "goldseam_workers", 0) - 1
    if workers >= 0:
        setattr(factory, "goldseam_workers", workers)
    if workers == 0:
        loop.set_task_factory(getattr(factory, "previous"))


def task_factory(previous: Any) -> Any:
    """Makes a task factory that gives each task of a workflow its arm when the task is created."""

    @functools.wraps(previous or asyncio.Task)
    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> Any:
        arm = current_arm.get()
        if arm is None:
            return _make(previous, loop, coro, kwargs)
        execution = arm.execution
        name = getattr(coro, "__qualname__", None) or type(coro).__name__
        own = arm.task_arm(name.rpartition(".<locals>.")[2])
        context = kwargs.get("context")
        if context is not None:
            context.run(current_arm.set, own)
        token = current_arm.set(own)
        try:
            task = _make(previous, loop, coro, kwargs)
        finally:
            current_arm.reset(token)
        if execution.over:
            task.cancel()
        execution.adopt_task(task)
        return task

    setattr(factory, "goldseam_workers", 0)
    setattr(factory, "previous", previous)
    return factory


def _make(previous: Any, loop: asyncio.AbstractEventLoop, coro: Any, kwargs: dict[str, Any]) -> Any:
    if previous is not None:
        return previous(loop, coro, **kwargs)
    return asyncio.Task(coro, loop=loop, **kwargs)
