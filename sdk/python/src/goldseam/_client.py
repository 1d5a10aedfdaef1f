"""The client: everything that can be done to runs, queues and locks, except executing them.

Documents are plain dicts, as the HTTP API and ``goldseam --json`` show them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import secrets as _secrets
import threading
import urllib.parse
from typing import Any, AsyncIterator, Generic, Mapping, TypeVar

from ._codec import Codec
from ._errors import Closed, Error, RunFailed, Unreachable, exception_of
from ._steps import Span, millis
from ._workflows import Workflow
from ._transport import Transport

R = TypeVar("R")
Document = dict[str, Any]

#: A long poll of a result.
_POLL = 20.0
_TERMINAL = ("completed", "failed", "cancelled")


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _query(path: str, **parameters: Any) -> str:
    given = {name: _text(value) for name, value in parameters.items() if value is not None}
    return f"{path}?{urllib.parse.urlencode(given)}" if given else path


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return str(int(value.timestamp() * 1000))
    return str(value)


def _given(**fields: Any) -> Document:
    return {name: value for name, value in fields.items() if value is not None}


class RunHandle(Generic[R]):
    """A run."""

    def __init__(self, client: "Client", run: str, hint: Any = Any) -> None:
        self.client = client
        #: The id of the run.
        self.id = run
        self._hint = hint

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def result(self, timeout: Span | None = None) -> R:
        """Waits for the end of the run and returns its output. Raises :class:`RunFailed`, or TimeoutError."""
        output: Any = await self.client.result(self.id, timeout)
        return self.client.codec.decode(output, self._hint)  # type: ignore[no-any-return]

    async def show(self) -> Document:
        """The run with its steps, waits and questions."""
        return await self.client.show(self.id)

    async def status(self) -> str:
        """The status of the run."""
        return str((await self.client.poll(self.id))["status"])

    async def why(self) -> Document:
        """Explains why the run does not move, and what to do."""
        return await self.client.why(self.id)

    async def history(self, **query: Any) -> Document:
        """The log of the run."""
        return await self.client.history(self.id, **query)

    async def signal(self, name: str, payload: Any = None, *, id: str | None = None) -> Document:
        """Sends a signal."""
        return await self.client.signal(self.id, name, payload, id=id)

    async def answer(self, question: str, answer: Any, *, by: str | None = None) -> Document:
        """Answers a question."""
        return await self.client.answer(self.id, question, answer, by=by)

    async def question(self, name: str | None = None, timeout: Span | None = None) -> Document:
        """Waits until the run asks a question, the one of this name or any, and returns it."""
        return await self.client.question(self.id, name, timeout)

    async def cancel(self, reason: str = "", **options: Any) -> Document:
        """Asks the run to stop between two effects, and undoes its steps."""
        return await self.client.cancel(self.id, reason, **options)

    async def pause(self, reason: str = "") -> Document:
        """Lets the run begin no new effect."""
        return await self.client.pause(self.id, reason)

    async def resume(self, reason: str = "") -> Document:
        """Lets a paused or parked run continue."""
        return await self.client.resume(self.id, reason)

    def events(self, after: int = 0) -> AsyncIterator[Document]:
        """The events of the run: those in the log, then new ones, until the run ends."""
        return self.client.follow(self.id, after)


class Client:
    """Everything that can be done to runs, on a store in this process or on a server."""

    def __init__(self, transport: Transport, codec: Codec) -> None:
        self.transport = transport
        self.codec = codec

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, wait: float = 0.0
    ) -> Any:
        """Sends any request of the HTTP API."""
        headers = {"idempotency-key": key} if key else None
        return await self.transport.send(method, path, body, headers, wait)

    async def _change(self, method: str, path: str, body: Any) -> Any:
        """Sends a change. After a lost response the same request is sent again: the key makes it one change."""
        key = _secrets.token_hex(16)
        pause = 0.1
        while True:
            try:
                return await self.call(method, path, body, key=key)
            except Unreachable:
                if pause > 2.0:
                    raise
                await asyncio.sleep(pause)
                pause *= 2

    # ------------------------------------------------------------------------------------------- runs

    async def start(
        self,
        workflow: Workflow[Any, R] | str,
        *args: Any,
        id: str | None = None,
        queue: str | None = None,
        priority: int = 0,
        tags: Mapping[str, str] | None = None,
        attributes: Mapping[str, Any] | None = None,
        version: int | None = None,
        **kwargs: Any,
    ) -> RunHandle[R]:
        """Starts a run. The same id with the same input is the same run; with other input it is refused (GS0108)."""
        body: Document = {}
        hint: Any = Any
        if isinstance(workflow, Workflow):
            body = {"workflow": workflow.name, "input": workflow.document(self.codec, args, kwargs)}
            version = version if version is not None else workflow.version
            hint = workflow.hint
        else:
            body = {"workflow": workflow, "input": self.codec.encode(args[0]) if args else None}
        body["id"] = id or f"{body['workflow'][:90]}-{_secrets.token_hex(8)}"
        body.update(_given(queue=queue, version=version, tags=dict(tags) if tags else None))
        if attributes:
            body["attributes"] = self.codec.encode(dict(attributes))
        if priority:
            body["priority"] = priority
        started = await self._change("POST", "/v1/runs", body)
        return RunHandle(self, started["run"], hint)

    def run(self, id: str, workflow: Workflow[Any, R] | None = None) -> RunHandle[R]:
        """A handle of an existing run; ``workflow`` gives its result a type."""
        return RunHandle(self, id, workflow.hint if workflow is not None else Any)

    async def list(self, **query: Any) -> Document:
        """Lists runs: ``status``, ``workflow``, ``tag``, ``where``, ``since_ms``, ``parent``, ``order``, ``after``, ``limit``."""
        return await self.call("GET", _query("/v1/runs", **query))  # type: ignore[no-any-return]

    async def show(self, run: str) -> Document:
        """A run with its steps, waits and questions."""
        return await self._of(run)  # type: ignore[no-any-return]

    async def _of(self, run: str, what: str = "", **query: Any) -> Any:
        path = f"/v1/runs/{_quoted(run)}" + (f"/{what}" if what else "")
        return await self.call("GET", _query(path, **query))

    async def history(self, run: str, **query: Any) -> Document:
        """The log of a run: ``branch``, ``after``, ``limit``."""
        return await self._of(run, "history", **query)  # type: ignore[no-any-return]

    async def why(self, run: str) -> Document:
        """Explains why a run does not move, and what to do."""
        return await self._of(run, "why")  # type: ignore[no-any-return]

    async def branches(self, run: str) -> Document:
        """The branches of a run."""
        return await self._of(run, "branches")  # type: ignore[no-any-return]

    async def poll(self, run: str, wait: float = 0.0) -> Document:
        """Status, output and failure of a run; waits up to ``wait`` seconds for its end."""
        path = _query(f"/v1/runs/{_quoted(run)}/result", wait_ms=int(wait * 1000))
        return await self.call("GET", path, wait=wait)  # type: ignore[no-any-return]

    async def result(self, run: str, timeout: Span | None = None) -> Any:
        """Waits for the end of a run and returns its output as JSON data."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + millis(timeout) / 1000
        while True:
            wait = _POLL if deadline is None else max(0.0, min(_POLL, deadline - loop.time()))
            ending = await self.poll(run, wait)
            status = ending["status"]
            if status == "completed":
                return ending.get("output")
            if status in _TERMINAL:
                error = exception_of(ending.get("failure") or {"message": f"the run is {status}"}, RunFailed)
                assert isinstance(error, RunFailed)
                error.run, error.status = run, status
                raise error
            if deadline is not None and loop.time() >= deadline:
                raise TimeoutError(f"run {run} is {status}, and has not ended in time")

    async def signal(self, run: str, name: str, payload: Any = None, *, id: str | None = None) -> Document:
        """Sends a signal. The same ``id`` is delivered once."""
        body = _given(name=name, payload=self.codec.encode(payload), id=id)
        body.setdefault("payload", None)
        return await self._command(run, "signal", body)

    async def _command(self, run: str, what: str, body: Document) -> Document:
        return await self._change("POST", f"/v1/runs/{_quoted(run)}/{what}", body)  # type: ignore[no-any-return]

    async def answer(self, run: str, question: str, answer: Any, *, by: str | None = None) -> Document:
        """Answers a question of a run."""
        body = {"answer": self.codec.encode(answer), **_given(by=by)}
        return await self._command(run, f"questions/{_quoted(question)}/answer", body)

    async def questions(self, run: str | None = None, **query: Any) -> Document:
        """Open questions, of one run or of all."""
        if run is not None:
            return await self._of(run, "questions")  # type: ignore[no-any-return]
        return await self.call("GET", _query("/v1/questions", **query))  # type: ignore[no-any-return]

    async def question(self, run: str, name: str | None = None, timeout: Span | None = None) -> Document:
        """Waits until a run asks a question, the one of this name or any. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + millis(timeout) / 1000
        mark: Any = None
        while True:
            changed = await self.call("GET", _query("/v1/changes", after=mark, wait_ms=0 if mark is None else 2000), wait=2.0)
            mark = changed["mark"]
            for question in (await self.questions(run))["items"]:
                if name is None or question["path"] == name:
                    return question  # type: ignore[no-any-return]
            if deadline is not None and loop.time() >= deadline:
                raise TimeoutError(f"run {run} did not ask in time")

    async def pause(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Lets a run begin no new effect."""
        return await self._command(run, "pause", {"reason": reason, **_given(by=by)})

    async def resume(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Lets a paused or parked run continue."""
        return await self._command(run, "resume", {"reason": reason, **_given(by=by)})

    async def cancel(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Asks a run to stop between two effects, and undoes its steps."""
        return await self._command(run, "cancel", {"reason": reason, **_given(by=by)})

    async def terminate(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Ends a run at once; nothing is undone."""
        return await self._command(run, "terminate", {"reason": reason, **_given(by=by)})

    async def withdraw(self, run: str, what: str | None = None, reason: str = "", *, by: str | None = None) -> Document:
        """Takes back a pending request, such as to cancel."""
        return await self._command(run, "withdraw", {"reason": reason, **_given(by=by, what=what)})

    async def note(self, run: str, reason: str, *, by: str | None = None) -> Document:
        """Adds a note for people to the log."""
        return await self._command(run, "note", {"reason": reason, **_given(by=by)})

    async def requeue(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Gives a run a task again."""
        return await self._command(run, "requeue", {"reason": reason, **_given(by=by)})

    async def retry(self, run: str, reason: str = "", *, by: str | None = None, drop_cancel: bool = False) -> Document:
        """Runs a failed run again from the step that failed, on a new branch."""
        return await self._command(run, "retry", {"reason": reason, "drop_cancel": drop_cancel, **_given(by=by)})

    async def jump(
        self,
        run: str,
        to: str,
        *,
        input: Any = None,
        compensate: bool = False,
        drop_mail: bool = False,
        drop_cancel: bool = False,
        dry_run: bool = False,
        reason: str = "",
        by: str | None = None,
    ) -> Document:
        """Goes back to a step, on a new branch."""
        body: Document = {"to": to, "reason": reason, **_given(by=by)}
        body.update(compensate=compensate, drop_mail=drop_mail, drop_cancel=drop_cancel, dry_run=dry_run)
        if input is not None:
            body["input"] = self.codec.encode(input)
        return await self._command(run, "jump", body)

    async def reset(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Starts a run over, on a new branch."""
        return await self._command(run, "reset", {"reason": reason, **_given(by=by)})

    async def migrate(self, run: str, **body: Any) -> Document:
        """Moves a run to another version of its workflow."""
        return await self._command(run, "migrate", body)

    async def follow(self, run: str | None = None, after: int = 0) -> AsyncIterator[Document]:
        """Follows the log of a run until it ends, or of all runs: each event once and in order, over reconnects."""
        path = _query(f"/v1/runs/{_quoted(run)}/events", after=after or None) if run else "/v1/events"
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Any] = asyncio.Queue()
        stopped = threading.Event()
        reader = threading.Thread(
            target=_follow, args=(self.transport, path, loop, queue, stopped), name="goldseam-follow", daemon=True
        )
        reader.start()
        try:
            while True:
                item = await queue.get()
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()

    # ------------------------------------------------------------------------------------------ healing

    async def recover(
        self, run: str, rule: str | None = None, *, dry_run: bool = False, compensate: bool = False, reason: str = ""
    ) -> Document:
        """Applies the remedy of a rule to a run now."""
        body = {"dry_run": dry_run, "compensate": compensate, "reason": reason, **_given(rule=rule)}
        return await self._command(run, "recover", body)

    async def doctor(self, *, fix: bool = False, deep: bool = False, rule: str | None = None) -> Document:
        """Examines the store and all active runs; with ``fix`` also heals them."""
        return await self.call("POST", "/v1/doctor", {"fix": fix, "deep": deep, **_given(rule=rule)})  # type: ignore[no-any-return]

    async def sweep(self, *, dry_run: bool = False, stale_after: Span | None = None, from_log: bool = False) -> Document:
        """Makes one sweep: finds stalled runs and, unless ``dry_run``, heals them."""
        body = {"dry_run": dry_run, "from_log": from_log}
        body.update(_given(stale_after_ms=None if stale_after is None else millis(stale_after)))
        return await self.call("POST", "/v1/sweep", body)  # type: ignore[no-any-return]

    async def recoveries(self, **query: Any) -> Document:
        """Recoveries, latest first: ``since_ms``, ``ended``, ``rule``, ``after``, ``limit``."""
        return await self.call("GET", _query("/v1/recoveries", **query))  # type: ignore[no-any-return]

    async def recovery_stats(self, **query: Any) -> Document:
        """Counts and durations of recoveries by rule: ``since_ms``, ``latest``."""
        return await self.call("GET", _query("/v1/recoveries/stats", **query))  # type: ignore[no-any-return]

    async def nodes(self) -> Document:
        """The nodes of the store."""
        return await self.call("GET", "/v1/nodes")  # type: ignore[no-any-return]

    # ------------------------------------------------------------------------------------ queue and locks

    async def tasks(self, **query: Any) -> Document:
        """Lists tasks: ``queue``, ``state``, ``run``, ``owner``, ``after``, ``limit``."""
        return await self.call("GET", _query("/v1/tasks", **query))  # type: ignore[no-any-return]

    async def submit_task(self, kind: str, payload: Any = None, **options: Any) -> Document:
        """Adds a task to a queue: ``queue``, ``id``, ``key``, ``priority``, ``delay_ms``, ``attempts_max``, ``silence_max_ms``."""
        body = {"kind": kind, "payload": self.codec.encode(payload), **options}
        return await self._change("POST", "/v1/tasks", body)  # type: ignore[no-any-return]

    async def claim_tasks(self, owner: str, *, wait: float = 0.0, **options: Any) -> Document:
        """Claims tasks: ``queue``, ``kind``, ``limit``."""
        body = {"owner": owner, "wait_ms": int(wait * 1000), **options}
        return await self.call("POST", "/v1/tasks/claim", body, wait=wait)  # type: ignore[no-any-return]

    async def heartbeat_task(self, task: str, token: str, details: Any = None) -> Document:
        """Reports that a task is being worked on."""
        body: Document = {"token": token}
        if details is not None:
            body["details"] = self.codec.encode(details)
        return await self.call("POST", f"/v1/tasks/{_quoted(task)}/heartbeat", body)  # type: ignore[no-any-return]

    async def complete_task(self, task: str, token: str, result: Any = None) -> Document:
        """Completes a task."""
        body = {"token": token, "result": self.codec.encode(result)}
        return await self._change("POST", f"/v1/tasks/{_quoted(task)}/complete", body)  # type: ignore[no-any-return]

    async def fail_task(self, task: str, token: str, failure: Document) -> Document:
        """Fails a task."""
        body = {"token": token, "failure": failure}
        return await self._change("POST", f"/v1/tasks/{_quoted(task)}/fail", body)  # type: ignore[no-any-return]

    async def release_task(self, task: str, token: str) -> Document:
        """Returns a task to its queue without blame."""
        return await self._change("POST", f"/v1/tasks/{_quoted(task)}/release", {"token": token})  # type: ignore[no-any-return]

    async def queue_stats(self) -> Document:
        """Counts of tasks by queue and state."""
        return await self.call("GET", "/v1/queues")  # type: ignore[no-any-return]

    async def reclaim_stale(self, *, older_than: Span | None = None, dry_run: bool = False) -> Document:
        """Returns tasks of silent claimants to their queues, and cleans stale locks."""
        body: Document = {"dry_run": dry_run}
        if older_than is not None:
            body["older_than_ms"] = millis(older_than)
        return await self.call("POST", "/v1/tasks/reclaim", body)  # type: ignore[no-any-return]

    async def detect_and_recover_stale(self, *, older_than: Span | None = None) -> Document:
        """Another name of :meth:`reclaim_stale`."""
        return await self.reclaim_stale(older_than=older_than)

    async def locks(self, **query: Any) -> Document:
        """Lists locks."""
        return await self.call("GET", _query("/v1/locks", **query))  # type: ignore[no-any-return]

    async def stale_locks(self) -> Document:
        """Locks whose holders are gone."""
        return await self.call("GET", "/v1/locks/stale")  # type: ignore[no-any-return]

    async def acquire_lock(self, name: str, holder: str, *, ttl: Span | None = None) -> Document:
        """Acquires a lock; the document has its fence."""
        body = {"holder": holder, **_given(ttl_ms=None if ttl is None else millis(ttl))}
        return await self._change("POST", f"/v1/locks/{_quoted(name)}/acquire", body)  # type: ignore[no-any-return]

    async def extend_lock(self, name: str, holder: str, fence: int, *, ttl: Span | None = None) -> Document:
        """Extends a lock."""
        body = {"holder": holder, "fence": fence, **_given(ttl_ms=None if ttl is None else millis(ttl))}
        return await self.call("POST", f"/v1/locks/{_quoted(name)}/extend", body)  # type: ignore[no-any-return]

    async def release_lock(self, name: str, holder: str, fence: int) -> Document:
        """Releases a lock."""
        body = {"holder": holder, "fence": fence}
        return await self.call("POST", f"/v1/locks/{_quoted(name)}/release", body)  # type: ignore[no-any-return]


def _follow(
    transport: Transport, path: str, loop: asyncio.AbstractEventLoop, queue: Any, stopped: threading.Event
) -> None:
    """Reads a stream in a thread, and reconnects where it broke."""
    last: str | None = None
    pause = 0.1

    def put(item: Any) -> None:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, item)
        except RuntimeError:
            stopped.set()

    while not stopped.is_set():
        try:
            stream = transport.stream(path, last)
        except Unreachable:
            stopped.wait(pause)
            pause = min(pause * 2, 5.0)
            continue
        except (Closed, Error) as error:
            put(None if isinstance(error, Closed) else error)
            return
        received = False
        try:
            for message in _messages(stream.pieces(), stopped):
                received = True
                pause = 0.1
                if message.get("event") == "problem":
                    put(Error(str(json.loads(message["data"]).get("detail"))))
                    return
                if message.get("id"):
                    last = message["id"]
                if "data" in message:
                    put(json.loads(message["data"]))
        finally:
            stream.close()
        if not received and last is not None or path.startswith("/v1/runs/") and _ended(transport, path, last):
            put(None)
            return
        stopped.wait(pause)


def _ended(transport: Transport, path: str, last: str | None) -> bool:
    """Whether the run of a stream has ended and all its events were received."""
    try:
        found = transport.request("GET", path.partition("/events")[0] + "/result")
    except Error:
        return False
    return found["status"] in _TERMINAL and last is not None and int(last) >= int(found["event"])


def _messages(pieces: Any, stopped: threading.Event) -> Any:
    """Parses server-sent events."""
    buffer = b""
    for piece in pieces:
        if stopped.is_set():
            return
        buffer += piece
        while b"\n\n" in buffer:
            block, _, buffer = buffer.partition(b"\n\n")
            message: dict[str, str] = {}
            for line in block.decode("utf-8", "replace").split("\n"):
                name, separator, value = line.partition(":")
                if separator and name:
                    value = value[1:] if value.startswith(" ") else value
                    message[name] = f"{message[name]}\n{value}" if name in message else value
            if message:
                yield message
