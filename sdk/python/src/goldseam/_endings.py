"""How an execution ends: the output, the failure with its compensations, a jump, and the end of all code."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Callable, Coroutine

from ._errors import CodecError, Continuation, Diverged, Error, Evicted, Problem, failure_of
from ._history import History, Op
from ._paths import Arm

if TYPE_CHECKING:
    from ._codec import Codec
    from ._worker import Worker

log = logging.getLogger("goldseam")

#: How long the tasks of an ended execution may take to end.
UNWIND = 10.0

Pending = list[tuple[dict[str, Any], "asyncio.Future[None] | None"]]


class Wait:
    """A task of the workflow that waits for something durable."""

    __slots__ = ("path", "due", "local", "remote")

    def __init__(self, path: str, due: int | None = None, local: bool = False, remote: bool = False) -> None:
        self.path = path
        self.due = due
        #: Ends at its time without a request, as the pause before another attempt does.
        self.local = local
        #: Ends when another worker has brought the result into the log.
        self.remote = remote


class Endings:
    """The part of an execution that ends it."""

    worker: "Worker"
    run: str
    codec: "Codec"
    history: History
    mode: str
    over: bool
    cut_short: bool
    busy: int
    thread: int | None
    arms: dict[str, Arm]
    tasks: set[asyncio.Task[Any]]
    undos: dict[str, Callable[[Any], Coroutine[Any, Any, None]]]
    unawaited: set[str]
    _main: asyncio.Task[Any] | None
    _pending: Pending
    _diverged: str | None
    _timer: asyncio.TimerHandle | None
    _waits: dict[asyncio.Future[None], Wait]
    _gated: set[asyncio.Future[None]]
    _stuck: set[asyncio.Future[None]]

    async def _append(self, doings: list[dict[str, Any]]) -> str:
        raise NotImplementedError

    async def _flush(self, checks: list[dict[str, Any]], release: dict[str, Any] | None) -> None:
        raise NotImplementedError

    async def _restart(self) -> None:
        raise NotImplementedError

    def poke(self) -> None:
        """Lets the driver look at the run."""
        raise NotImplementedError

    async def _finish(self) -> None:
        main = self._main
        assert main is not None
        if self.tasks:
            await self._cancel_tasks()
        if self._pending:
            await self._flush([], None)
            if self._pending:
                self.poke()
                return
        error: BaseException | None
        try:
            error = main.exception()
        except asyncio.CancelledError as cancelled:
            error = cancelled
        if self._diverged is not None or isinstance(error, Diverged):
            reason = self._diverged or str(error)
            await self._append([{"park": {"code": "V1", "reason": reason[:4000]}}])
        elif isinstance(error, Evicted):
            self.over = True
        elif self.mode != "run":
            await self._undo_all()
        elif isinstance(error, Continuation):
            await self._end_or_fail("continue_as_new", "input", error.value)
        elif error is None and self.cut_short:
            await self._fail(asyncio.CancelledError())
        elif error is None:
            await self._complete(main.result())
        elif self.worker.is_stopping and not self.history.cancel_requested and isinstance(error, asyncio.CancelledError):
            await self._append([{"release": {"reason": "hand_over"}}])
        else:
            await self._fail(error)

    async def _complete(self, value: Any) -> None:
        left = self._left_over()
        if left is not None:
            await self._append([{"park": {"code": "V1", "reason": left}}])
            return
        if self.unawaited:
            paths = ", ".join(sorted(self.unawaited)[:10])
            log.warning("run %s called steps without awaiting them, so they did not run: %s. Write await before the call (GS0633)", self.run, paths)
        await self._end_or_fail("complete", "output", value)

    async def _end_or_fail(self, what: str, field: str, value: Any) -> None:
        """Ends the run with a value; fails it if the value cannot be written, or is too large."""
        try:
            data = self.codec.encode(value)
        except Exception as error:
            return await self._fail(error)
        try:
            await self._end([{what: {field: data}}])
        except (Problem, CodecError) as problem:
            if problem.code not in ("GS0102", "GS0103", "GS0605", "GS0634"):
                raise
            await self._fail(problem)

    async def _give_up(self, error: Exception) -> None:
        """Parks a run that could not be executed for a reason which another attempt would meet again."""
        log.error("execution of run %s failed", self.run, exc_info=error)
        if self.over:
            return
        self.over = True
        reason = f"its execution failed: {type(error).__name__}: {error}"
        try:
            await self._append([{"park": {"code": "V1", "reason": reason[:4000]}}])
        except (Evicted, Error) as refusal:
            log.warning("run %s could not be parked: %s", self.run, refusal)

    async def _end(self, doings: list[dict[str, Any]]) -> None:
        if await self._append(doings) == "again":
            await self._restart()

    def _left_over(self) -> str | None:
        for path, arm in self.arms.items():
            for order, left in self.history.places.get(path, {}).items():
                if order >= arm.ord:
                    return f"the log has {left} at place {order} of {shown_arm(path)}, the code ended before it"
        return None

    async def _fail(self, error: BaseException) -> None:
        if self.history.cancel_requested and isinstance(error, asyncio.CancelledError):
            failure = {"class": "terminal", "message": "the run was cancelled", "code": "cancelled"}
        else:
            failure = self.worker.redacted(failure_of(error))
        self.mode = "undo"
        await self._undo_all(failure)

    def _to_undo(self) -> list[Op]:
        history = self.history
        since = history.after(history.jump["to"]) if self.mode == "jump" and history.jump else 0
        ops = [op for op in history.ops.values() if op.undo and op.completed and op.path not in history.undone]
        return sorted((op for op in ops if op.last >= since), key=lambda op: op.last, reverse=True)

    async def _undo_all(self, failure: dict[str, Any] | None = None) -> None:
        """Undoes the steps that completed, latest first, then ends the run or finishes the jump."""
        jump = self.mode == "jump"
        if self._main is not None and not self._main.done():
            await self._cancel_tasks()
        reason = None if jump else (self.history.failure or failure)
        done: list[dict[str, Any]] = []
        for op in self._to_undo():
            undo = self.undos.get(op.path)
            if undo is None:
                text = f"the log has a step {op.path} to undo, the code has no compensation for it"
                await self._append([*done, {"park": {"code": "V1", "reason": text}}])
                return
            if op.path not in self.history.undoing:
                started: dict[str, Any] = {"path": op.path}
                if self.history.failure is None and reason is not None:
                    started["failure"] = reason
                await self._append([*done, {"undo_started": started}])
                done = []
            try:
                await self._undo_one(op, undo)
            except Exception as error:
                failed = self.worker.redacted(failure_of(error))
                await self._append([*done, {"undo_failed": {"path": op.path, "failure": failed}}])
                return
            done.append({"undo_completed": {"path": op.path}})
        cancelled = self.history.cancel_requested and reason is not None and reason.get("code") == "cancelled"
        last: dict[str, Any]
        if jump:
            last = {"finish_jump": {}}
        elif cancelled:
            last = {"cancelled": {}}
        else:
            last = {"fail": {"failure": reason or {"class": "terminal", "message": "undone"}}}
        await self._end([*done, last])

    async def _undo_one(self, op: Op, undo: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        await self.worker.be_fresh(self)
        self.busy += 1
        try:
            await undo(op.output)
        finally:
            self.busy -= 1

    async def _cancel_tasks(self) -> None:
        """Ends tasks that the workflow left behind, or that only replayed."""
        over, self.over = self.over, True
        main = self._main
        await self._unwind()
        self.over = over
        if main is not None:
            self._main = main

    async def _unwind(self) -> None:
        """Ends all code of this execution. Durable calls raise :class:`Evicted` while it unwinds."""
        if self._timer is not None:
            self._timer.cancel()
        for future in [*self._waits, *self._gated, *self._stuck, *(f for _, f in self._pending if f is not None)]:
            if not future.done():
                future.set_exception(Evicted())
                future.exception()
        self._waits.clear()
        self._gated.clear()
        self._stuck.clear()
        tasks = {task for task in self.tasks if not task.done()}
        if self._main is not None and not self._main.done():
            tasks.add(self._main)
        if not tasks:
            return
        await asyncio.sleep(0)
        if self.thread is None:
            for task in tasks:
                if not task.done() and getattr(task, "_fut_waiter", None) is not None:
                    task.cancel()
        _, left = await asyncio.wait(tasks, timeout=UNWIND)
        for task in left:
            log.warning("run %s: code did not stop within %s s after the run had left: %r", self.run, UNWIND, task)



def shown_arm(path: str) -> str:
    """Names an arm for people."""
    return f"arm {path}" if path else "the workflow"
