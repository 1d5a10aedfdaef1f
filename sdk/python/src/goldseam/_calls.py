"""What operations do with their execution: they look into its history, append, and wait."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TYPE_CHECKING, Any, Coroutine, TypeVar

from ._endings import Endings, Wait, shown_arm
from ._errors import Cancelled, CodecError, Diverged, Evicted, StepFailed, exception_of
from ._history import Op
from ._lone import Begun
from ._paths import Arm, Spot, current_arm

if TYPE_CHECKING:
    from ._workflows import Workflow

T = TypeVar("T")

_KINDS = {"step": "a step", "wait": "a wait", "sleep": "a sleep", "child": "a child run", "progress": "progress",
          "attributes": "a change of attributes", "published": "a published value",
          "answered": "an answer to a request"}  # fmt: skip


class Calls(Endings):
    """The part of an execution that its operations call."""

    loop: asyncio.AbstractEventLoop
    workflow: "Workflow[Any, Any]"
    other_input_until: int
    token: str
    _serial: int
    _begun: Begun | None
    _wake: asyncio.Future[None] | None
    _woken: bool
    _opening: set[str]
    _thread_active: bool

    def absorb(self, news: dict[str, Any]) -> None:
        """Adds events to the history, and wakes what they end."""
        raise NotImplementedError

    def is_held_back(self) -> bool:
        """Whether no effect may begin now, but the code waits for it to begin."""
        raise NotImplementedError

    def _at(self, when: float) -> None:
        raise NotImplementedError

    def diverge(self, reason: str) -> Any:
        """Parks the run: code and log differ."""
        if self._diverged is None:
            self._diverged = reason
        self.poke()
        raise Diverged(reason)

    def look(self, spot: Spot, kind: str, fingerprint: str | None = None) -> Op | None:
        """Finds the operation of a call in the history, and compares both."""
        op = self.history.ops.get(spot.path)
        if op is None:
            other = self.history.places.get(spot.arm.path, {}).get(spot.ord)
            if other is not None:
                self.diverge(
                    f"the log has {other} at place {spot.ord} of {shown_arm(spot.arm.path)}, the code calls {spot.path}"
                )
            return None
        if op.ord != spot.ord:
            there = self.history.places.get(spot.arm.path, {}).get(spot.ord, "nothing")
            self.diverge(
                f"the log has {spot.path} at place {op.ord} of {shown_arm(spot.arm.path)}, the code at place {spot.ord}, "
                f"where the log has {there}"
            )
        if op.kind != kind:
            self.diverge(f"the log has {spot.path} as {_KINDS[op.kind]}, the code as {_KINDS[kind]}")
        if fingerprint is not None and op.input is not None and op.input != fingerprint:
            if op.first > self.other_input_until:
                self.diverge(f"step {spot.path} depends on other input than in the log")
        return op

    def used(self, arm: Arm, op: Op) -> None:
        """Moves the time of an arm to an operation that it has used."""
        if op.at > arm.now:
            arm.now = op.at

    async def gate(self) -> None:
        """Waits until an effect may begin. Raises :class:`Cancelled` if the run is to be cancelled."""
        while True:
            if self.over:
                raise Evicted
            if self.mode != "run":
                future: asyncio.Future[None] = self.loop.create_future()
                self._stuck.add(future)
                self.poke()
                await future
            elif self.history.cancel_requested:
                raise Cancelled("the run is being cancelled")
            elif self.is_held_back():
                future = self.loop.create_future()
                self._gated.add(future)
                self.poke()
                await future
            else:
                break
        if not self.worker.is_fresh():
            await self.worker.be_fresh(self)
            if self.over:
                raise Evicted

    async def append(self, doing: dict[str, Any]) -> None:
        """Appends a doing with everything else of this iteration, and waits until it is durable."""
        if self.over:
            raise Evicted
        if len(self.tasks) == 1 and self._is_at_rest():
            answer = self.worker.lone.append(self, f"{self._serial + 1}", doing)
            if isinstance(answer, dict):
                self._serial += 1
                self.absorb(answer)
                return await self.worker.turns.turn()
            self._begun = answer
        future: asyncio.Future[None] = self.loop.create_future()
        self._pending.append((doing, future))
        self.poke()
        await future

    def _is_at_rest(self) -> bool:
        """Whether the driver has nothing to do, and no task of the workflow waits."""
        resting = self._wake is not None and not self._woken and not self._pending
        return resting and not (self._waits or self._gated or self._stuck) and self.mode == "run"

    def settle(self) -> None:
        """Lets the driver look whether the run can be released now."""
        if self._waits or self._gated or self._stuck:
            self.poke()

    def note(self, doing: dict[str, Any]) -> None:
        """Appends a doing with the next append."""
        if not self.over:
            self._pending.append((doing, None))

    async def wait(self, path: str, doing: dict[str, Any] | None = None, due: int | None = None) -> Op:
        """Waits for the end of a durable wait or sleep, which ``doing`` opens; ``due`` is about when it ends."""
        while True:
            op = self.history.ops.get(path)
            if op is not None and op.ended:
                return op
            if self.over:
                raise Evicted
            future: asyncio.Future[None] = self.loop.create_future()
            self._waits[future] = Wait(path, due)
            if doing is not None and path not in self._opening:
                self._opening.add(path)
                self._pending.append((doing, future))
            doing = None
            self.poke()
            await future

    async def ended_elsewhere(self, path: str) -> None:
        """Waits until another worker has ended a remote step, or its next attempt is scheduled."""
        op = self.history.ops[path]
        if op.ended or op.scheduled:
            return
        if self.over:
            raise Evicted
        future: asyncio.Future[None] = self.loop.create_future()
        self._waits[future] = Wait(path, remote=True)
        self.poke()
        await future

    async def until(self, path: str, due: int) -> None:
        """Waits for a time of the store's clock; the run may be released meanwhile."""
        if due <= self.worker.now():
            return
        if self.over:
            raise Evicted
        future: asyncio.Future[None] = self.loop.create_future()
        self._waits[future] = Wait(path, due, local=True)
        self._at(self.loop.time() + (due - self.worker.now()) / 1000)
        self.poke()
        await future

    def value(self, data: Any, hint: Any, what: str) -> Any:
        """Reads a recorded value. A value that the code's type cannot read is a difference, not a failure."""
        try:
            return self.codec.decode(data, hint)
        except Exception as error:
            message = error.message if isinstance(error, CodecError) else str(error)
            self.diverge(f"the code cannot read {what}: {message}")

    def result(self, spot: Spot, op: Op, hint: Any) -> Any:
        """Returns or raises the outcome of a step."""
        self.used(spot.arm, op)
        if op.failure is not None:
            error = exception_of(op.failure)
            if isinstance(error, StepFailed):
                error.path = spot.path
            raise error
        return self.value(op.output, hint, f"the result of step {spot.path}")

    def is_replaying(self, arm: Arm) -> bool:
        """Whether the next call of an arm is in the log."""
        return self.history.last_places.get(arm.path, -1) >= arm.ord

    def was_silent(self, spot: Spot) -> bool:
        """Whether an operation that may leave no event is done: the log has a later one of its arm, and none here."""
        history, arm = self.history, spot.arm.path
        if spot.path in history.ops or spot.ord in history.places.get(arm, {}):
            return False
        return history.last_places.get(arm, -1) > spot.ord

    def adopt_task(self, task: asyncio.Task[Any]) -> None:
        """Registers a task that the workflow created."""
        self.tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if task.cancelled():
            # A task group takes a cancelled task for one that ended, so the function may return all the same.
            cut = self.history.cancel_requested and not self.over and not self.workflow.is_sync
            self.cut_short = self.cut_short or cut
        elif isinstance(task.exception(), (Evicted, Diverged)):
            pass  # retrieved, so that asyncio does not report it
        self.settle()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> Any:
        """Returns the coroutine to code on the loop; executes it for a workflow that is a plain function."""
        if not self.workflow.is_sync:
            return coroutine
        return self._from_thread(coroutine)

    def _from_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        result: concurrent.futures.Future[T] = concurrent.futures.Future()

        def ended(task: asyncio.Task[T]) -> None:
            self._thread_active = True
            if task.cancelled():
                result.set_exception(Evicted() if self.over else Cancelled("the run is being cancelled"))
            else:
                error = task.exception()
                if error is not None:
                    result.set_exception(error)
                else:
                    result.set_result(task.result())

        def begin() -> None:
            token = current_arm.set(None)
            try:
                task = self.loop.create_task(coroutine)
            finally:
                current_arm.reset(token)
            self.adopt_task(task)
            task.add_done_callback(ended)
            self._thread_active = False

        self.loop.call_soon_threadsafe(begin)
        return result.result()
