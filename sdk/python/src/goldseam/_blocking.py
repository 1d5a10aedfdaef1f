"""The engine for programs without an event loop, and for notebooks."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from typing import Any, Callable, Concatenate, Coroutine, Generic, Iterator, ParamSpec, TypeVar

from ._client import Client, RunHandle
from ._engine import Engine, Opening
from ._errors import Closed, Misuse
from ._options import Span
from ._verbs import Document
from ._workflows import Workflow

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _of_client(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["BlockingEngine", P], T]:
    """Makes a method of the client wait for its result."""

    @functools.wraps(method)
    def call(self: "BlockingEngine", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(method(self.engine, *args, **kwargs))

    return call


def _of_run(
    method: Callable[Concatenate[RunHandle[Any], P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["BlockingRun[Any]", P], T]:
    """Makes a method of a handle wait for its result."""

    @functools.wraps(method)
    def call(self: "BlockingRun[Any]", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._engine._wait(method(self._handle, *args, **kwargs))

    return call


class BlockingEngine:
    """An engine for programs without an event loop, and for notebooks: every method waits for its result.

    It runs an event loop in a thread of its own. It has the methods of :class:`Client`, without ``await``. Threads may share it.
    """

    def __init__(self, opening: Opening) -> None:
        self._loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="goldseam-loop", daemon=True)
        self._thread.start()
        try:
            self.engine: Engine = self._wait(opening._open())
        except BaseException:
            self._end()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        refusal: Exception | None = None
        if self._pid != os.getpid():
            hint = "open the engine in the child process, after the fork"
            refusal = Closed("this process was forked after the engine was opened", code="GS0630", hint=hint)
        elif self._loop.is_closed():
            refusal = Closed("the engine is closed")
        elif threading.current_thread() is self._thread:
            hint = "await the methods of engine.engine, or make the step a plain def"
            refusal = Misuse("a blocking call on the event loop of the engine would never return", hint=hint)
        if refusal is not None:
            work.close()
            raise refusal
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # An interrupt of the waiting thread ends the work, too.
            future.cancel()
            raise

    def start(self, workflow: Workflow[Any, R] | str, *args: Any, **options: Any) -> "BlockingRun[R]":
        """Starts a run; see :meth:`Client.start`."""
        handle: RunHandle[R] = self._wait(self.engine.start(workflow, *args, **options))
        return BlockingRun(self, handle)

    def run(self, id: str, workflow: Workflow[Any, R] | None = None) -> "BlockingRun[R]":
        """A handle of an existing run."""
        return BlockingRun(self, self.engine.run(id, workflow))

    def follow(self, run: str | None = None, after: int = 0) -> Iterator[Document]:
        """Follows the log of a run until it ends, or of all runs; see :meth:`Client.follow`."""
        events = self.engine.follow(run, after)
        try:
            while True:
                try:
                    yield self._wait(_next(events))
                except StopAsyncIteration:
                    return
        finally:
            if not self._loop.is_closed():
                self._wait(events.aclose())

    call = _of_client(Client.call)
    list = _of_client(Client.list)
    show = _of_client(Client.show)
    history = _of_client(Client.history)
    why = _of_client(Client.why)
    published = _of_client(Client.published)
    published_values = _of_client(Client.published_values)
    request = _of_client(Client.request)
    diff = _of_client(Client.diff)
    undo_recovery = _of_client(Client.undo_recovery)
    branches = _of_client(Client.branches)
    poll = _of_client(Client.poll)
    result = _of_client(Client.result)
    signal = _of_client(Client.signal)
    answer = _of_client(Client.answer)
    questions = _of_client(Client.questions)
    show_question = _of_client(Client.show_question)
    question = _of_client(Client.question)
    pause = _of_client(Client.pause)
    resume = _of_client(Client.resume)
    cancel = _of_client(Client.cancel)
    terminate = _of_client(Client.terminate)
    withdraw = _of_client(Client.withdraw)
    note = _of_client(Client.note)
    requeue = _of_client(Client.requeue)
    retry = _of_client(Client.retry)
    jump = _of_client(Client.jump)
    reset = _of_client(Client.reset)
    migrate = _of_client(Client.migrate)
    recover = _of_client(Client.recover)
    doctor = _of_client(Client.doctor)
    sweep = _of_client(Client.sweep)
    recoveries = _of_client(Client.recoveries)
    recovery_stats = _of_client(Client.recovery_stats)
    remedies = _of_client(Client.remedies)
    statuses = _of_client(Client.statuses)
    activity = _of_client(Client.activity)
    suggestions = _of_client(Client.suggestions)
    current_key = _of_client(Client.current_key)
    nodes = _of_client(Client.nodes)
    tasks = _of_client(Client.tasks)
    submit_task = _of_client(Client.submit_task)
    claim_tasks = _of_client(Client.claim_tasks)
    heartbeat_task = _of_client(Client.heartbeat_task)
    complete_task = _of_client(Client.complete_task)
    fail_task = _of_client(Client.fail_task)
    release_task = _of_client(Client.release_task)
    queue_stats = _of_client(Client.queue_stats)
    reclaim_stale = _of_client(Client.reclaim_stale)
    detect_and_recover_stale = _of_client(Client.detect_and_recover_stale)
    locks = _of_client(Client.locks)
    stale_locks = _of_client(Client.stale_locks)
    acquire_lock = _of_client(Client.acquire_lock)
    extend_lock = _of_client(Client.extend_lock)
    release_lock = _of_client(Client.release_lock)
    task = _of_client(Client.task)
    cancel_task = _of_client(Client.cancel_task)
    lock = _of_client(Client.lock)
    workflows = _of_client(Client.workflows)
    groups = _of_client(Client.groups)
    failures = _of_client(Client.failures)
    operate = _of_client(Client.operate)
    operations = _of_client(Client.operations)
    operation = _of_client(Client.operation)
    pause_operation = _of_client(Client.pause_operation)
    resume_operation = _of_client(Client.resume_operation)
    stop_operation = _of_client(Client.stop_operation)
    prune = _of_client(Client.prune)
    create_pass = _of_client(Client.create_pass)

    def close(self, drain: Span | None = None) -> None:
        """Closes the engine."""
        if self._loop.is_closed() or self._pid != os.getpid():
            return
        self._wait(self.engine.close(drain))
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        if not self._thread.is_alive():
            self._loop.close()


async def _next(events: Any) -> Any:
    return await events.__anext__()


class BlockingRun(Generic[R]):
    """A run, for programs without an event loop: it has the methods of :class:`RunHandle`, without ``await``."""

    def __init__(self, engine: BlockingEngine, handle: RunHandle[R]) -> None:
        self._engine = engine
        self._handle = handle
        #: The id of the run.
        self.id = handle.id

    def __repr__(self) -> str:
        return f"BlockingRun({self.id!r})"

    def result(self, timeout: Span | None = None) -> R:
        """Waits for the end of the run and returns its output. Raises :class:`RunFailed`, or TimeoutError."""
        return self._engine._wait(self._handle.result(timeout))

    def events(self, after: int = 0) -> Iterator[Document]:
        """The events of the run: those in the log, then new ones, until the run ends."""
        return self._engine.follow(self.id, after)

    show = _of_run(RunHandle.show)
    status = _of_run(RunHandle.status)
    why = _of_run(RunHandle.why)
    history = _of_run(RunHandle.history)
    signal = _of_run(RunHandle.signal)
    answer = _of_run(RunHandle.answer)
    question = _of_run(RunHandle.question)
    request = _of_run(RunHandle.request)
    published = _of_run(RunHandle.published)
    cancel = _of_run(RunHandle.cancel)
    retry = _of_run(RunHandle.retry)
    jump = _of_run(RunHandle.jump)
    recover = _of_run(RunHandle.recover)
    pause = _of_run(RunHandle.pause)
    resume = _of_run(RunHandle.resume)
