"""Threads that never keep the process alive."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import threading
from typing import Any, Callable, TypeVar

from ._errors import Closed

T = TypeVar("T")


class DaemonPool:
    """Threads that never keep the process alive, started when needed."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = max(1, limit)
        self._name = name
        self._waiting: collections.deque[Any] = collections.deque()
        self._lock = threading.Condition()
        self._threads = 0
        self._free = 0
        self._closed = False

    def submit(self, work: Any) -> concurrent.futures.Future[Any]:
        """Runs ``work`` in a thread."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._lock:
            if self._closed:
                raise Closed("the engine is closed")
            self._waiting.append((future, work))
            if self._free < len(self._waiting) and self._threads < self._limit:
                self._threads += 1
                name = f"{self._name}-{self._threads}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
            else:
                self._lock.notify()
        return future

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._free += 1
                while not self._waiting:
                    if self._closed or not self._lock.wait(60.0) and not self._waiting:
                        self._free -= 1
                        self._threads -= 1
                        return
                self._free -= 1
                future, work = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
                del error
            del future, work

    def close(self) -> None:
        """Lets idle threads end."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()


async def in_thread(work: Callable[[], T]) -> T:
    """Calls a function in a thread of its own: those of the loop may all be busy with code of the program."""
    pool = DaemonPool(1, "goldseam-once")
    try:
        found: T = await asyncio.wrap_future(pool.submit(work))
        return found
    finally:
        pool.close()
