"""Appends of a run that nothing else competes with.

Usually the driver of an execution sends its appends, and a thread of the engine answers them. For a lone step, changing
threads and tasks takes longer than the append. So if no other append is in flight, the task of the workflow begins the
append itself, in the thread of the loop, and continues with the response: on SQLite the commit happens there. The loop is
blocked for that time, which is about a disk sync; if syncs are slow, the driver sends most appends again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import types
from typing import TYPE_CHECKING, Any, Generator, NamedTuple

from ._errors import Error

if TYPE_CHECKING:
    from ._calls import Calls
    from ._execution import Execution
    from ._worker import Worker

APPEND = "/v1/executions/append"
#: A step that runs longer gets an event of its own when it begins, in seconds.
LONG_STEP = 1.0
#: Sockets and timers of the loop wait for at most this long while lone steps follow each other, in seconds.
TURN = 0.001
#: The run of the last append keeps its precedence for this long; another run must wait for that time, in seconds.
APART = 0.005
#: A lone append that took longer is slow, in seconds.
SLOW = 0.001
#: After this number of slow appends in succession, or after a very slow one, none is lone for a while.
SLOW_MAX = 3
VERY_SLOW = 0.02
#: How long that is, as a multiple of the time for which they blocked the loop.
PAUSE_FACTOR = 50.0


class Begun(NamedTuple):
    """An append that is sent and has no response yet."""

    #: When it was sent, by the monotonic clock.
    sent: float
    #: Its status and body.
    answer: "asyncio.Future[tuple[int, bytes]]"


class LoneAppends:
    """Decides for one worker which appends are lone, and makes them."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._is_embedded = worker.transport.embedded
        #: Appends that wait for a response.
        self.in_flight = 0
        self._last: Calls | None = None
        self._last_at = 0.0
        self._paused_until = 0.0
        #: The durations of the last appends, as long as all of them were slow.
        self._slow: list[float] = []

    def sent(self, execution: "Calls") -> None:
        """An append of an execution is sent."""
        self._last, self._last_at = execution, time.monotonic()

    def ended(self, execution: "Calls") -> None:
        """An execution has ended."""
        if self._last is execution:
            self._last = None

    def append(self, execution: "Calls", number: str, doing: dict[str, Any]) -> dict[str, Any] | Begun | None:
        """Appends, and returns the response, or what waits for it if it takes longer.

        None if the driver must send the append, with the same number: a repeat has no effect.
        """
        began = time.monotonic()
        if not self._is_embedded or self.in_flight or began < self._paused_until:
            return None
        if self._last is not execution and began - self._last_at < APART:
            return None
        body = {"token": execution.token, "id": number, "after": execution.history.end, "doings": [doing]}
        try:
            answer: Any = self._worker.transport.begin(APPEND, body)
        except Error:
            return None
        if answer is None:
            return None
        now = time.monotonic()
        self._last, self._last_at = execution, now
        self._took(now - began, now)
        if isinstance(answer, asyncio.Future):
            return Begun(began, answer)
        if answer["outcome"] != "held" or answer.get("more") or answer.get("leaving"):
            return None
        self._worker.seen(began, answer)
        found: dict[str, Any] = answer
        return found

    def _took(self, span: float, now: float) -> None:
        """Keeps a slow disk from blocking the loop for more than 2 % of the time."""
        if span <= SLOW:
            self._slow.clear()
            return
        self._slow.append(span)
        if span > VERY_SLOW or len(self._slow) >= SLOW_MAX:
            self._paused_until = now + sum(self._slow) * PAUSE_FACTOR
            self._slow.clear()


class Turns:
    """When a workflow of lone steps lets the loop do everything else."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        #: What is ready to run; a loop that does not show it gets a turn after each step.
        self._ready: Any = getattr(loop, "_ready", None)
        self._last = 0.0

    @types.coroutine
    def turn(self) -> Generator[None, None, None]:
        """Lets the loop do everything else, if something else is ready or the sockets and timers have waited long."""
        now = time.monotonic()
        if self._ready is None or self._ready or now - self._last > TURN:
            self._last = now
            yield


class Watchers:
    """The callers in this process that wait for the end of a run that this process executes.

    A long poll would be woken by every append of the run, and would read it each time.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    def wake(self, run: str) -> None:
        """The worker got a run, or its execution has ended."""
        for future in self._waiting.pop(run, ()):
            if not future.done():
                future.set_result(None)

    @contextlib.contextmanager
    def watch(self, run: str) -> Generator[asyncio.Future[None], None, None]:
        """A future that is done when the worker gets the run, or its execution ends."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run, []).append(future)
        try:
            yield future
        finally:
            waiting = self._waiting.get(run)
            if waiting is not None and future in waiting:
                waiting.remove(future)
                if not waiting:
                    del self._waiting[run]


class LongSteps:
    """The attempts of one worker that run now. An attempt that takes long gets an event of its own when it begins."""

    def __init__(self) -> None:
        #: By attempt, the oldest first: when it began, its execution, and its event.
        self._running: dict[object, tuple[float, Execution, dict[str, Any]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def began(self, attempt: object, at: float, execution: "Execution", base: dict[str, Any]) -> None:
        """An attempt begins."""
        self._running[attempt] = (at, execution, base)
        if self._timer is None:
            self._timer = execution.loop.call_later(LONG_STEP, self._look, execution.loop)

    def ended(self, attempt: object) -> None:
        """An attempt has ended."""
        self._running.pop(attempt, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = time.monotonic()
        for attempt, (at, execution, base) in list(self._running.items()):
            if at + LONG_STEP > now:
                self._timer = loop.call_later(at + LONG_STEP - now, self._look, loop)
                return
            del self._running[attempt]
            execution.note({"step_started": dict(base)})
            execution.poke()
