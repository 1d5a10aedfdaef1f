"""The worker: registers, claims runs, sends heartbeats, and appends what its executions did.

Claims and heartbeats run in daemon threads, so a blocked event loop does not lose a run that is alive.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from typing import Any, Coroutine, Iterable, Mapping

from ._arms import leave_task_factory, use_task_factory
from ._codec import Codec
from ._endings import Endings
from ._errors import Closed, Error, Misuse, Problem, Unreachable
from ._execution import Execution
from ._lone import APPEND, Begun, LoneAppends, LongSteps, Turns, Watchers
from ._operations import Secret
from ._paths import current_arm
from ._workflows import Workflow
from ._threads import DaemonPool
from ._transport import Transport, read

log = logging.getLogger("goldseam")

#: The claim has ended.
_LOST = ("GS0114", "GS0311", "GS0312")
#: Refusals after which the claim is valid, and the request was wrong.
_WRONG = ("GS0101", "GS0102", "GS0103", "GS0112", "GS0115", "GS0122", "GS0142", "GS0167", "GS0173", "GS0313", "GS0602", "GS0603", "GS0608")
#: The lease of a worker in this process. Its death is seen by its lock, so the lease is only for a stopped interpreter.
LEASE_EMBEDDED = 600.0
#: The lease of a worker of a server.
LEASE_HTTP = 10.0
#: Interval of heartbeats while runs are held.
BEAT = 1.0
#: A worker that starts asks a server that does not answer again for this long.
PATIENCE = 5.0
#: A run that was just started is claimed within this time, if this process is to execute it.
CLAIM = 0.05
#: Interval of looks at a run that this process executes.
LOOK = 1.0
#: Warn if the event loop did not answer for this long.
BLOCKED = 1.0


class Worker:
    """Executes workflows on one event loop."""

    def __init__(
        self,
        transport: Transport,
        workflows: Iterable[Workflow[Any, Any]],
        *,
        codec: Codec,
        name: str | None = None,
        queues: Iterable[str] = (),
        slots: int = 256,
        threads: int = 32,
        lease: float | None = None,
        linger: float = 1.0,
        secrets: Mapping[str, Secret] | None = None,
    ) -> None:
        self.transport = transport
        self.codec = codec
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.queues = list(queues)
        self.slots = slots
        self.lease = lease if lease is not None else LEASE_EMBEDDED if transport.embedded else LEASE_HTTP
        self.linger = linger
        self.secrets = dict(secrets or {})
        self.threads = DaemonPool(threads, "goldseam-step")
        #: Plain workflows wait for their steps, so they need threads of their own.
        self.workflow_threads = DaemonPool(slots, "goldseam-workflow")
        self.registry: dict[tuple[str, int], Workflow[Any, Any]] = {}
        for workflow in workflows:
            self._register(workflow)
        self.loop: asyncio.AbstractEventLoop
        #: No new effect begins: the worker or its server shuts down.
        self.leaving = False
        self.is_stopping = False
        self.id = ""
        self.executions: dict[str, Execution] = {}
        #: Tokens of all executions; of those that the loop has not begun, with the end of the log.
        self._held: dict[str, Execution | int] = {}
        self._by_run: dict[str, Execution] = {}
        self._later: dict[str, dict[str, Any]] = {}
        self._lock = threading.Condition()
        self._registering = threading.Lock()
        self._drivers: set[asyncio.Task[Any]] = set()
        self._sent = 0.0
        self._ahead = 0.0
        self._idle: asyncio.Event
        self.lone = LoneAppends(self)
        self.long_steps = LongSteps()
        self.watchers = Watchers()
        self.turns: Turns

    def _register(self, workflow: Workflow[Any, Any]) -> None:
        if not isinstance(workflow, Workflow):
            raise Misuse(f"{workflow!r} is not a workflow", hint="decorate the function with @gs.workflow")
        other = self.registry.get((workflow.name, workflow.version))
        if other is not None and other.function is not workflow.function:
            raise Misuse(
                f"two workflows have the name {workflow.name} and version {workflow.version}",
                hint="give one of them another name or version",
            )
        self.registry[(workflow.name, workflow.version)] = workflow

    # ------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Registers, and begins to claim runs."""
        self.loop = asyncio.get_running_loop()
        self._idle = asyncio.Event()
        self._idle.set()
        self.turns = Turns(self.loop)
        use_task_factory(self.loop)
        try:
            self._registered(await self._register_first())
        except BaseException:
            leave_task_factory(self.loop)
            raise
        threading.Thread(target=self._claiming, name="goldseam-claim", daemon=True).start()
        threading.Thread(target=self._beating, name="goldseam-beat", daemon=True).start()

    async def _register_first(self) -> dict[str, Any]:
        """Registers; a server that restarts is asked again for a while."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return await self.transport.send("POST", "/v1/workers", self._registration())  # type: ignore[no-any-return]
            except Unreachable as error:
                if time.monotonic() >= deadline:
                    raise
                log.warning("worker %s cannot register, trying again: %s", self.name, error)
                await asyncio.sleep(0.5)

    def _registration(self) -> dict[str, Any]:
        labels = [workflow.label for workflow in self.registry.values()]
        document: dict[str, Any] = {"name": self.name, "workflows": labels, "slots": self.slots}
        document["lease_ms"] = round(self.lease * 1000)
        if self.queues:
            document["queues"] = self.queues
        plans = {workflow.name: list(workflow.plan) for workflow in self.registry.values() if workflow.plan}
        if plans:
            document["plans"] = plans
        return document

    def _registered(self, answer: dict[str, Any]) -> None:
        self._sent = time.monotonic()
        self.id = answer["worker"]
        self.lease = answer["lease_ms"] / 1000
        self._tell_time(answer)

    def _tell_time(self, answer: Mapping[str, Any]) -> None:
        self._ahead = answer["now"] / 1000 - time.time()

    def now(self) -> int:
        """The store's clock, in milliseconds."""
        return int((time.time() + self._ahead) * 1000)

    async def stop(self, drain: float) -> None:
        """Lets running steps end within ``drain`` seconds, releases all runs, and leaves."""
        self.leaving = True
        for execution in list(self.executions.values()):
            execution.poke()
        try:
            if self.executions:
                await asyncio.wait_for(self._idle.wait(), drain)
        except asyncio.TimeoutError:
            pass
        with self._lock:
            self.is_stopping = True
            self._lock.notify_all()
        try:
            await self.transport.send("DELETE", f"/v1/workers/{self.id}")
        except Error as error:
            log.debug("worker %s did not leave: %s", self.name, error)
        for execution in list(self.executions.values()):
            execution.over = True
            execution.poke()
        if self._drivers:
            await asyncio.wait(self._drivers, timeout=5.0)
        leave_task_factory(self.loop)
        self.threads.close()
        self.workflow_threads.close()

    # ---------------------------------------------------------------------------------------- claims

    def _claiming(self) -> None:
        pause = 0.05
        while not self._is_done():
            with self._lock:
                free = self.slots - len(self._held)
                if free <= 0 or self.leaving:
                    self._lock.wait(1.0)
                    continue
                holding = list(self._held)
            wait = min(self.lease / 3, 20.0)
            body = {"limit": min(free, 100), "holding": holding, "wait_ms": int(wait * 1000)}
            sent = time.monotonic()
            try:
                answer = self.transport.request("POST", f"/v1/workers/{self.id}/claim", body, wait=wait)
            except Closed:
                return
            except Error as error:
                if self._is_done():
                    return
                if isinstance(error, Problem) and error.code == "GS0311":
                    # A server that restarts often may be gone after a pause.
                    if self._register_again():
                        pause = 0.05
                        continue
                else:
                    log.warning("worker %s cannot claim: %s", self.name, error)
                time.sleep(pause)
                pause = min(pause * 2, 2.0)
                continue
            except Exception:
                if self._is_done() or self.loop.is_closed():
                    return
                log.exception("worker %s cannot claim", self.name)
                time.sleep(1.0)
                continue
            pause = 0.05
            self.seen(sent, answer)
            if answer.get("leaving"):
                self._server_leaves()
                continue
            fresh = []
            with self._lock:
                for document in answer["executions"]:
                    if document["token"] not in self._held:
                        self._held[document["token"]] = document["end"]
                        fresh.append(document)
            if fresh and not self._on_loop(self._take, fresh):
                return

    def _is_done(self) -> bool:
        return self.is_stopping

    def _on_loop(self, function: Any, *args: Any) -> bool:
        """Calls a function on the loop. Returns false if the loop is closed."""
        try:
            self.loop.call_soon_threadsafe(function, *args)
            return True
        except RuntimeError:
            self._loop_closed()
            return False

    def _loop_closed(self) -> None:
        """The program closed its loop without closing the engine: other workers must get its runs."""
        if self.is_stopping:
            return
        self.is_stopping = True
        log.warning("the event loop of worker %s was closed before the engine: leaving", self.name)
        try:
            self.transport.request("DELETE", f"/v1/workers/{self.id}")
        except Error:
            pass

    def _take(self, documents: list[dict[str, Any]]) -> None:
        for document in documents:
            self._begin(document)

    def _begin(self, document: dict[str, Any]) -> None:
        token = document["token"]
        if document["run"] in self._by_run:
            # The append that released it is not answered yet.
            self._later[document["run"]] = document
            return
        workflow = self.registry.get((document["workflow"], document["version"]))
        if workflow is None:
            self.spawn(self._unfit(document))
            return
        execution = Execution(self, document, workflow)
        self.executions[token] = execution
        self._by_run[execution.run] = execution
        self.watchers.wake(execution.run)
        with self._lock:
            self._held[token] = execution
        self._idle.clear()
        self.spawn(self._drive(execution))

    def executes(self, run: str) -> bool:
        """Whether this process executes a run now."""
        return run in self._by_run

    async def _unfit(self, document: dict[str, Any]) -> None:
        body = {
            "token": document["token"],
            "id": "unfit",
            "after": document["end"],
            "doings": [{"release": {"reason": "unfit"}}],
        }
        try:
            await self.transport.send("POST", "/v1/executions/append", body)
        except Error as error:
            log.warning("cannot release run %s: %s", document["run"], error)
        self._drop(document["token"])

    async def _drive(self, execution: Execution) -> None:
        try:
            await execution.drive()
        except Error as error:
            log.warning("execution of run %s ended: %s", execution.run, error)
        except Exception:
            log.exception("execution of run %s failed", execution.run)
        finally:
            self._by_run.pop(execution.run, None)
            self.lone.ended(execution)
            self._drop(execution.token)
            self.watchers.wake(execution.run)
            later = self._later.pop(execution.run, None)
            if later is not None:
                self._begin(later)

    def _drop(self, token: str) -> None:
        self.executions.pop(token, None)
        with self._lock:
            full = len(self._held) >= self.slots
            self._held.pop(token, None)
            if full:
                self._lock.notify_all()
        if not self.executions:
            self._idle.set()

    def succeed(self, execution: Execution, document: dict[str, Any]) -> None:
        """Continues a run that continued as new."""
        with self._lock:
            self._held[document["token"]] = document["end"]
        self.loop.call_soon(self._begin, document)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts a task outside of every workflow."""
        token = current_arm.set(None)
        try:
            task = self.loop.create_task(work)
        finally:
            current_arm.reset(token)
        self._drivers.add(task)
        task.add_done_callback(self._drivers.discard)
        return task

    # ------------------------------------------------------------------------------------- heartbeats

    def _beating(self) -> None:
        blocked_since: float | None = None
        answered = threading.Event()
        answered.set()
        while not self._is_done():
            with self._lock:
                holding = [
                    {"token": token, "after": held if isinstance(held, int) else held.history.end}
                    for token, held in self._held.items()
                ]
                if not holding:
                    # Claims are signs of life.
                    self._lock.wait(min(self.lease / 3, BEAT))
                    continue
            wait = min(self.lease / 3, BEAT)
            body = {"holding": holding, "wait_ms": int(wait * 1000)}
            sent = time.monotonic()
            try:
                answer = self.transport.request("POST", f"/v1/workers/{self.id}/heartbeat", body, wait=wait)
            except Closed:
                return
            except Exception as error:
                if self._is_done():
                    return
                if isinstance(error, Problem) and error.code == "GS0311":
                    self._register_again()
                elif time.monotonic() - self._sent > self.lease:
                    log.warning("worker %s lost its lease: %s", self.name, error)
                time.sleep(0.2)
                continue
            self.seen(sent, answer)
            if answer["leaving"]:
                self._server_leaves()
            news = answer["news"]
            if (news or answer["lost"]) and not self._on_loop(self._hear, news, answer["lost"]):
                return
            # Look whether the loop runs.
            if answered.is_set():
                answered.clear()
                blocked_since = time.monotonic()
                if not self._on_loop(answered.set):
                    return
            elif blocked_since is not None and time.monotonic() - blocked_since > BLOCKED:
                log.warning(
                    "the event loop of worker %s is blocked for %.1f s: put blocking code into a step that is a plain def",
                    self.name,
                    time.monotonic() - blocked_since,
                )

    def _hear(self, news: list[dict[str, Any]], lost: list[str]) -> None:
        for entry in news:
            execution = self.executions.get(entry["token"])
            if execution is not None and not execution.over:
                execution.absorb(entry)
                execution.poke()
        for token in lost:
            execution = self.executions.get(token)
            if execution is not None:
                log.info("run %s was taken over or ended elsewhere", execution.run)
                execution.over = True
                execution.poke()
                for task in execution.tasks:
                    task.cancel()

    def seen(self, sent: float, answer: Mapping[str, Any]) -> None:
        """Takes a response as a sign that the claim is valid, and reads the store's clock from it."""
        self._sent = max(self._sent, sent)
        self._tell_time(answer)

    def _register_again(self) -> bool:
        """The server does not know this worker: drops all executions, and registers as a new one."""
        known = self.id
        with self._registering:
            if self.id != known:
                return True
            self._on_loop(self._hear, [], list(self._held))
            deadline = time.monotonic() + 10.0
            while self._held and time.monotonic() < deadline and not self.is_stopping:
                time.sleep(0.02)
            try:
                self._registered(self.transport.request("POST", "/v1/workers", self._registration()))
                return True
            except Closed:
                pass
            except Error as error:
                log.warning("worker %s cannot register: %s", self.name, error)
            return False

    def _server_leaves(self) -> None:
        """The server shuts down: hands over all runs, then registers again."""
        if self.leaving or self.transport.embedded:
            time.sleep(0.1)
            return
        self.leaving = True
        self._on_loop(self._poke_all)
        deadline = time.monotonic() + self.lease
        while self._held and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        if not self.is_stopping:
            self.leaving = False

    def _poke_all(self) -> None:
        for execution in list(self.executions.values()):
            execution.poke()

    def is_fresh(self) -> bool:
        """Whether an effect may begin: the last answered request was sent less than half a lease ago."""
        return time.monotonic() - self._sent < self.lease / 2

    async def be_fresh(self, execution: Endings) -> None:
        """Sends a heartbeat if the last sign of life is too old."""
        while not self.is_fresh() and not execution.over:
            holding = [{"token": token, "after": held.history.end} for token, held in self.executions.items()]
            sent = time.monotonic()
            try:
                answer = await self.transport.send("POST", f"/v1/workers/{self.id}/heartbeat", {"holding": holding})
            except Closed:
                execution.over = True
                return
            except Error as error:
                if isinstance(error, Problem) and error.code == "GS0311":
                    execution.over = True
                    return
                await asyncio.sleep(0.2)
                continue
            self.seen(sent, answer)
            self._hear(answer["news"], answer["lost"])

    # ---------------------------------------------------------------------------------------- appends

    async def append(
        self,
        execution: Execution,
        number: str,
        doings: list[dict[str, Any]],
        begun: Begun | None = None,
    ) -> dict[str, Any] | None:
        """Appends; repeats the same request until there is a response. None if the claim has ended.

        ``begun`` is the first request, if it is sent already.
        """
        body = {"token": execution.token, "id": number, "after": execution.history.end, "doings": doings}
        self.lone.in_flight += 1
        self.lone.sent(execution)
        try:
            return await self._insist(execution, APPEND, body, begun)
        finally:
            self.lone.in_flight -= 1

    async def events(self, execution: Execution) -> dict[str, Any] | None:
        """Reads events after those that the execution knows. None if the claim has ended."""
        body = {"token": execution.token, "after": execution.history.end}
        return await self._insist(execution, "/v1/executions/events", body)

    async def _insist(
        self,
        execution: Execution,
        path: str,
        body: dict[str, Any],
        begun: Begun | None = None,
    ) -> dict[str, Any] | None:
        pause = 0.05
        while True:
            sent = time.monotonic()
            try:
                answer: dict[str, Any]
                if begun is not None:
                    sent, answering = begun
                    begun = None
                    answer = read(*await answering)
                else:
                    answer = await self.transport.send("POST", path, body)
                if "now" in answer:
                    self.seen(sent, answer)
                return answer
            except Closed:
                return None
            except Problem as problem:
                if problem.code in _LOST:
                    return None
                if problem.code in _WRONG or problem.status in (400, 413, 422):
                    raise
                log.warning("append to run %s was refused, trying again: %s", execution.run, problem)
            except Unreachable as error:
                if time.monotonic() - self._sent > self.lease + 30.0:
                    log.warning("giving up run %s: %s", execution.run, error)
                    return None
            if execution.over and pause > 1.0:
                return None
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5.0)

    def redacted(self, failure: dict[str, Any]) -> dict[str, Any]:
        """Removes the values of secrets from a failure."""
        if self.secrets:
            failure["message"] = self.redacted_text(failure["message"])
        return failure

    def redacted_text(self, text: str) -> str:
        """Removes the values of secrets from a text."""
        for secret in self.secrets.values():
            value = secret.reveal()
            if value:
                text = text.replace(value, "[secret]")
        return text
