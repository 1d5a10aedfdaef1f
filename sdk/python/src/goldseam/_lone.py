"""Appends of a run that nothing else competes with.

Usually the driver of an execution sends its appends, and a thread of the engine answers them. For a lone step, changing
threads and tasks takes longer than the append. So if no other append is in flight, the task of the workflow begins the
append itself, in the thread of the loop, and continues with the response: on SQLite the commit happens there. The loop is
blocked for that time, which is about a disk sync; if syncs are slow, the driver sends most appends again.
"""

from __future__ import annotations

import asyncio
import time
import types
from typing import TYPE_CHECKING, Any, Generator, NamedTuple

from ._errors import Error

if TYPE_CHECKING:
    from ._execution import Execution
    from ._worker import Worker

APPEND = "/v1/executions/append"
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
        self._last: Execution | None = None
        self._last_at = 0.0
        self._paused_until = 0.0
        #: The durations of the last appends, as long as all of them were slow.
        self._slow: list[float] = []

    def sent(self, execution: "Execution") -> None:
        """An append of an execution is sent."""
        self._last, self._last_at = execution, time.monotonic()

    def ended(self, execution: "Execution") -> None:
        """An execution has ended."""
        if self._last is execution:
            self._last = None

    def append(self, execution: "Execution", number: str, doing: dict[str, Any]) -> dict[str, Any] | Begun | None:
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


@types.coroutine
def turn() -> Generator[None, None, None]:
    """Lets the loop do everything else that is ready."""
    yield
