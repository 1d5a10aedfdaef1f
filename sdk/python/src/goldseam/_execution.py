"""One execution of a run: replays its history, executes what is new, and appends the results.

The driver of an execution is one task of the event loop. The code of the workflow runs in tasks of its own; each of their
operations is a coroutine that takes its path when it is called. Everything that an iteration of the loop produces goes into
one append. The driver releases the run when every task of the workflow waits for something durable.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from typing import TYPE_CHECKING, Any, Callable, Coroutine

from ._calls import Calls
from ._endings import Wait
from ._errors import Cancelled, Closed, CodecError, Evicted, Exited, Problem, guarded
from ._history import History
from ._lone import Begun
from ._paths import Arm, current_arm

log = logging.getLogger("goldseam")

if TYPE_CHECKING:
    from ._workflows import Workflow
    from ._worker import Worker


#: A run whose next timer is due within this time is kept.
LINGER = 1.0
#: Doings in one append.
DOINGS_MAX = 500

#: Refusals that concern one doing.
_ENTRY = ("GS0101", "GS0102", "GS0103", "GS0142", "GS0167", "GS0173", "GS0313", "GS0602", "GS0608", "GS0634")


class Execution(Calls):
    """A run that this process has, from one claim to its end."""

    def __init__(self, worker: "Worker", document: dict[str, Any], workflow: "Workflow[Any, Any]") -> None:
        self.worker = worker
        self.loop = worker.loop
        self.workflow = workflow
        self.codec = worker.codec
        self._adopt(document)
        self.arms: dict[str, Arm] = {}
        self.root = Arm(self)
        self.root.now = self.created_at
        #: ``run``; ``undo`` or ``jump`` while only the history is replayed.
        self.mode = "run"
        self.over = False
        self.tasks: set[asyncio.Task[Any]] = set()
        self.undos: dict[str, Callable[[Any], Coroutine[Any, Any, None]]] = {}
        #: Paths of steps that were called and have not begun.
        self.unawaited: set[str] = set()
        self.busy = 0
        self._pending: list[tuple[dict[str, Any], asyncio.Future[None] | None]] = []
        self._waits: dict[asyncio.Future[None], Wait] = {}
        self._gated: set[asyncio.Future[None]] = set()
        self._stuck: set[asyncio.Future[None]] = set()
        self._wake: asyncio.Future[None] | None = None
        self._woken = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._serial = 0
        #: The append of the first pending doing, if it is sent already.
        self._begun: Begun | None = None
        #: The cancellation of the run ended a task of the workflow.
        self.cut_short = False
        #: Paths of waits that the next append opens.
        self._opening: set[str] = set()
        #: The names under which the run has published in this replay.
        self.published: set[str] = set()
        self._diverged: str | None = None
        self._unsettled_since: float | None = None
        self._main: asyncio.Task[Any] | None = None
        #: The thread of a workflow that is a plain function, and whether it runs code now.
        self.thread: int | None = None
        self._thread_active = False

    def _adopt(self, document: dict[str, Any]) -> None:
        self.token: str = document["token"]
        self.run: str = document["run"]
        self.epoch: int = document["epoch"]
        self.version: int = document["version"]
        self.generation: int = document["generation"]
        self.input: Any = document.get("input")
        self.tags: dict[str, str] = document.get("tags") or {}
        self.attributes: dict[str, Any] = document.get("attributes") or {}
        self.trace: dict[str, Any] | None = document.get("trace")
        self.recoveries: int = document.get("attempt", 0)
        self.created_at: int = document["created_at"]
        self.other_input_until: int = document.get("other_input_until", 0)
        self.history = History(document.get("base", 0))
        self.history.add(document["events"], document["end"])
        self.more: bool = document.get("more", False)
        if document.get("cancel_requested"):
            self.history.cancel_requested = True

    # ---------------------------------------------------------------------------------------------- the driver

    async def drive(self) -> None:
        """Executes the run until it ends, waits, or is lost."""
        try:
            while self.more:
                news = await self.worker.events(self)
                if news is None:
                    return
                self.history.add(news["events"], news["end"])
                self.more = bool(news["more"])
            self._settle_mode()
            self._begin()
            while await self._rest():
                await self._advance()
        except Evicted:
            pass
        except Closed:
            raise
        except Exception as error:
            await self._give_up(error)
        finally:
            self.over = True
            await self._unwind()

    def _begin(self) -> None:
        body = self._call_sync() if self.workflow.is_sync else self._call_async()
        self._main = self.loop.create_task(body)
        if not self.workflow.is_sync:
            self.tasks.add(self._main)
        self._main.add_done_callback(self._main_done)

    def _main_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()
        self.poke()

    async def _call_async(self) -> Any:
        current_arm.set(self.root)
        try:
            return await self._arguments()()
        except SystemExit as error:
            # It would end the event loop.
            raise Exited(error) from None

    def _arguments(self) -> Callable[[], Any]:
        try:
            return self.workflow.arguments(self.codec, self.input)
        except CodecError as error:
            return self.diverge(f"the code cannot read the input of the run: {error.message}")  # type: ignore[no-any-return]

    async def _call_sync(self) -> Any:
        function = self._arguments()
        context = contextvars.copy_context()

        def body() -> Any:
            self.thread = threading.get_ident()
            self._thread_active = True
            try:
                return context.run(guarded, function)
            finally:
                self._thread_active = False

        context.run(current_arm.set, self.root)
        self._thread_active = True
        return await asyncio.wrap_future(self.worker.workflow_threads.submit(body))

    def poke(self) -> None:
        """Lets the driver look at the run."""
        self._woken = True
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _rest(self) -> bool:
        """Waits until there is something to do; false if the execution is over."""
        if not self._woken and not self.over:
            self._wake = self.loop.create_future()
            await self._wake
            self._wake = None
        self._woken = False
        return not self.over

    async def _advance(self) -> None:
        """Does what there is to do: ends the run, appends, or releases it."""
        if self._begun is not None:
            return await self._end_begun()
        if self._diverged is not None:
            await self._append([{"park": {"code": "V1", "reason": self._diverged[:4000]}}])
            self.over = True
            return
        if self._main is not None and self._main.done():
            return await self._finish()
        self._resolve()
        state = self._state()
        doings = [doing for doing, _ in self._pending]
        if self.mode != "run" and state == "blocked" and not doings:
            return await self._undo_all()
        checks = self._checks() if state != "active" or self._has_news() else []
        release = self._release(state, bool(doings)) if state == "blocked" else None
        if not doings and not checks and release is None:
            return
        await self._flush(checks, release)

    def _has_news(self) -> bool:
        return bool(self._waits) and self.history.last_mail > 0

    def _state(self) -> str:
        """``active`` while code or a step runs; ``blocked`` if only something durable can continue the run."""
        if self.busy or self._thread_active:
            return "active"
        unknown = False
        for task in self.tasks:
            if task.done():
                continue
            waiter = getattr(task, "_fut_waiter", None)
            if waiter is None:
                # It runs in the next iteration of the loop: look again after it.
                self.loop.call_soon(self.poke)
                return "active"
            if waiter in self._waits or waiter in self._gated or waiter in self._stuck or waiter in self.tasks:
                continue
            children = getattr(waiter, "_children", None)
            if children is not None and all(child.done() or child in self.tasks for child in children):
                continue
            unknown = True
        if not self._waits and not self._gated and not self._stuck:
            return "active"
        if unknown:
            # A task group, or code that waits for something that is not durable. Give it a moment.
            now = self.loop.time()
            if self._unsettled_since is None:
                self._unsettled_since = now
            if now - self._unsettled_since < LINGER:
                self._at(self._unsettled_since + LINGER)
                return "active"
            return "blocked"
        self._unsettled_since = None
        return "blocked"

    def _at(self, when: float) -> None:
        """Looks at the run again at a time of the loop's clock."""
        if self._timer is not None and not self._timer.cancelled() and self._timer_at <= when and (
            self._timer_at > self.loop.time()
        ):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self.loop.call_at(when, self.poke)

    def _checks(self) -> list[dict[str, Any]]:
        """Checks of open waits that may have ended."""
        checks: list[dict[str, Any]] = []
        now = self.worker.now()
        new = {path for doing, _ in self._pending for path in _path_of(doing)}
        for wait in self._waits.values():
            op = self.history.ops.get(wait.path)
            if wait.local or wait.remote or op is None or op.ended or wait.path in new:
                continue
            due = op.due is not None and op.due <= now
            if op.checked == 0 or op.checked < self.history.last_mail or due:
                op.checked = max(self.history.last_mail, 1)
                checks.append({"check": {"path": wait.path}})
            elif op.due is not None:
                self._at(self.loop.time() + (op.due - now) / 1000)
        return checks

    def _release(self, state: str, has_doings: bool) -> dict[str, Any] | None:
        """Decides whether to release the run, all of whose tasks wait."""
        if self.worker.leaving:
            return {"release": {"reason": "hand_over"}}
        if self._gated and self.history.paused:
            return {"release": {"reason": "paused"}}
        now = self.worker.now()
        dues = [self._due_of(wait) for wait in self._waits.values()]
        soon = min((due for due in dues if due is not None), default=None)
        if soon is not None and soon - now <= self.worker.linger * 1000:
            self._at(self.loop.time() + max(0.0, (soon - now) / 1000))
            return None
        return {"release": {"reason": "unload"}}

    def _due_of(self, wait: Wait) -> int | None:
        op = self.history.ops.get(wait.path)
        if wait.remote:
            return None
        return wait.due if wait.local or op is None else op.due

    async def _end_begun(self) -> None:
        """Waits for the append that the task of the workflow has sent."""
        await self._flush([], None, 1)
        if self._diverged is not None or (self._main is not None and self._main.done()):
            self.poke()

    async def _flush(
        self, checks: list[dict[str, Any]], release: dict[str, Any] | None, limit: int = DOINGS_MAX
    ) -> None:
        pending, self._pending = self._pending[:limit], self._pending[limit:]
        if self._pending:
            release = None
        doings = [*(doing for doing, _ in pending), *checks, *([release] if release else [])]
        try:
            outcome = await self._append(doings)
        except (Problem, CodecError) as problem:
            await self._refused(problem, pending)
            return
        if outcome == "again":
            self._pending = pending + self._pending
            return await self._restart()
        for _, future in pending:
            if future is not None and future not in self._waits and not future.done():
                future.set_result(None)
        if self._pending:
            self.poke()

    async def _append(self, doings: list[dict[str, Any]]) -> str:
        """Appends and folds the response. Raises :class:`Evicted` if the run is no longer ours."""
        self._serial += 1
        for doing in doings:
            if "park" in doing:
                log.warning("run %s is parked: %s (goldseam why %s)", self.run, doing["park"]["reason"], self.run)
        begun, self._begun = self._begun, None
        answer = await self.worker.append(self, f"{self._serial}", doings, begun)
        if answer is None:
            self.over = True
            raise Evicted
        self.absorb(answer)
        outcome: str = answer["outcome"]
        if outcome == "continued" and answer.get("next"):
            self.over = True
            self.worker.succeed(self, answer["next"])
            raise Evicted
        if outcome in ("over", "continued"):
            self.over = True
            raise Evicted
        return outcome

    def absorb(self, news: dict[str, Any]) -> None:
        """Adds events to the history, and wakes what they end."""
        before = self.history.last_mail
        self.history.add(news["events"], news["end"])
        if news.get("more"):
            self.worker.spawn(self._read_on())
        self._settle_mode()
        self._resolve()
        if self.history.last_mail != before:
            self.poke()

    async def _read_on(self) -> None:
        news = await self.worker.events(self)
        if news is not None and not self.over:
            self.absorb(news)

    def _settle_mode(self) -> None:
        history = self.history
        if history.failure is not None:
            self.mode = "undo"
        elif history.jump is not None:
            self.mode = "jump"
        elif self.mode == "jump":
            self.mode = "run"

    def _resolve(self) -> None:
        """Ends waits whose operations have ended or whose time has come."""
        ops, now = self.history.ops, self.worker.now()
        cancelling = self.history.cancel_requested and self.mode == "run"
        for future, wait in list(self._waits.items()):
            op = ops.get(wait.path)
            ended = op is not None and (op.ended or (wait.remote and op.scheduled)) and not wait.local
            if ended or (wait.local and wait.due is not None and wait.due <= now):
                del self._waits[future]
                if not future.done():
                    future.set_result(None)
            elif cancelling:
                del self._waits[future]
                if not future.done():
                    future.set_exception(Cancelled("the run is being cancelled"))
        if self._gated and (cancelling or not self.is_held_back()):
            gated, self._gated = self._gated, set()
            for future in gated:
                if not future.done():
                    future.set_result(None)

    def is_held_back(self) -> bool:
        """Whether no effect may begin now, but the code waits for it to begin."""
        return self.history.paused or self.worker.leaving

    async def _refused(self, problem: Problem | CodecError, pending: list[tuple[dict[str, Any], asyncio.Future[None] | None]]) -> None:
        """Handles a refusal after which the claim is still valid."""
        if problem.code == "GS0122":
            news = await self.worker.events(self)
            if news is None:
                self.over = True
                raise Evicted
            self.mode = "undo"
            self.absorb(news)
            self.poke()
            return
        too_large = isinstance(problem, Problem) and problem.status == 413
        if (problem.code in _ENTRY or too_large) and pending:
            for entry in pending:
                await self._append_alone(entry, problem if len(pending) == 1 else None)
            return
        code = problem.code if problem.code in ("GS0112", "GS0115") else "V1"
        await self._append([{"park": {"code": code, "reason": str(problem)[:4000]}}])
        self.over = True

    async def _append_alone(
        self, entry: tuple[dict[str, Any], asyncio.Future[None] | None], problem: Problem | CodecError | None
    ) -> None:
        """Appends one doing of a refused append; its operation gets the refusal."""
        doing, future = entry
        if problem is None:
            try:
                await self._append([doing])
            except (Problem, CodecError) as refusal:
                problem = refusal
        if future is None or future.done():
            return
        if problem is not None:
            self._waits.pop(future, None)
            future.set_exception(problem)
        elif future not in self._waits:
            future.set_result(None)

    async def _restart(self) -> None:
        """Calls the function again from its start, with the history as it is now."""
        self.over = True
        await self._unwind()
        self.tasks.clear()
        self.arms.clear()
        self.root = Arm(self)
        self.root.now = self.created_at
        self._pending.clear()
        self._begun = None
        self._opening.clear()
        self.published.clear()
        self.unawaited.clear()
        self.cut_short = False
        self.over = False
        self._begin()


def _path_of(doing: dict[str, Any]) -> list[str]:
    return [fields["path"] for fields in doing.values() if "path" in fields]
