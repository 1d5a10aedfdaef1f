"""The client: everything that can be done to runs, queues and locks, except executing them.

Documents are plain dicts, as the HTTP API and ``goldseam --json`` show them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import secrets as _secrets
import threading
from typing import Any, AsyncGenerator, AsyncIterator, Generic, Mapping, TypeVar

from ._codec import Codec
from ._errors import Misuse, Problem, RunFailed, Unreachable, exception_of
from ._follow import follow as _follow
from ._options import Span, millis
from ._transport import Transport
from ._verbs import Document, StoreVerbs, given, moment, quoted, with_query
from ._workflows import Workflow

R = TypeVar("R")

#: A long poll of a result.
_POLL = 20.0
#: The statuses of a run that has ended.
TERMINAL = ("completed", "failed", "cancelled")


class _Unset:
    def __repr__(self) -> str:
        return "unset"


_UNSET: Any = _Unset()


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

    async def history(self, /, **query: Any) -> Document:
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

    async def request(
        self, name: str, payload: Any = None, type: Any = Any, *, id: str | None = None, timeout: Span | None = None
    ) -> Any:
        """Sends a request and waits for its answer. Raises :class:`Problem` if the run refuses it or ends, or TimeoutError."""
        return await self.client.request(self.id, name, payload, type, id=id, timeout=timeout)

    async def published(self, name: str, type: Any = Any, *, default: Any = _UNSET) -> Any:
        """The latest value that the run published under a name. Does not wake the run."""
        return await self.client.published(self.id, name, type, default=default)

    async def cancel(self, /, reason: str = "", **options: Any) -> Document:
        """Asks the run to stop between two effects, and undoes its steps."""
        return await self.client.cancel(self.id, reason, **options)

    async def retry(self, /, reason: str = "", **options: Any) -> Document:
        """Runs the failed run again from the step that failed, on a new branch."""
        return await self.client.retry(self.id, reason, **options)

    async def jump(self, /, to: str, **options: Any) -> Document:
        """Goes back to a step, on a new branch; options as in :meth:`Client.jump`."""
        return await self.client.jump(self.id, to, **options)

    async def recover(self, /, rule: str | None = None, **options: Any) -> Document:
        """Applies the remedy of a rule now."""
        return await self.client.recover(self.id, rule, **options)

    async def pause(self, reason: str = "") -> Document:
        """Lets the run begin no new effect."""
        return await self.client.pause(self.id, reason)

    async def resume(self, reason: str = "") -> Document:
        """Lets a paused or parked run continue."""
        return await self.client.resume(self.id, reason)

    def events(self, after: int = 0) -> AsyncIterator[Document]:
        """The events of the run: those in the log, then new ones, until the run ends."""
        return self.client.follow(self.id, after)


class Client(StoreVerbs):
    """Everything that can be done to runs, on a store in this process or on a server."""

    def __init__(self, transport: Transport, codec: Codec) -> None:
        self.transport = transport
        self.codec = codec

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        wait: float = 0.0,
    ) -> Any:
        """Sends any request of the HTTP API."""
        sent = {**(headers or {}), **({"idempotency-key": key} if key else {})}
        return await self.transport.send(method, path, body, sent or None, wait)

    async def _change(self, method: str, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
        """Sends a change. After a lost response the same request is sent again: the key makes it one change."""
        key = _secrets.token_hex(16)
        pause = 0.1
        while True:
            try:
                return await self.call(method, path, body, key=key, headers=headers)
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
        timeout: Span | None = None,
        deadline: dt.datetime | None = None,
        delay: Span | None = None,
        start_at: dt.datetime | None = None,
        lane: str | None = None,
        trace: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> RunHandle[R]:
        """Starts a run. The same id with the same input is the same run; with other input it is refused (GS0108).

        ``timeout`` or ``deadline``: when the run must have ended; then it is cancelled, undone, and fails with the code ``timeout``.
        ``delay`` or ``start_at``: when it begins. ``lane``: at most one run of a lane is executed at a time. ``trace``: the headers
        ``traceparent`` and ``tracestate`` of the caller.
        """
        body: Document = {}
        hint: Any = Any
        if id is not None and not isinstance(id, str):
            raise Misuse(f"the id of a run must be text, not {id!r}", code="GS0101", hint='pass id="order-17"')
        if isinstance(workflow, Workflow):
            body = {"workflow": workflow.name, "input": workflow.document(self.codec, args, kwargs)}
            version = version if version is not None else workflow.version
            hint = workflow.hint
        elif not isinstance(workflow, str):
            raise Misuse(f"{workflow!r} is not a workflow", hint="pass a function with @gs.workflow, or the name of a workflow")
        else:
            body = {"workflow": workflow, "input": self.codec.encode(args[0]) if args else None}
        body["id"] = id or f"{body['workflow'][:90]}-{_secrets.token_hex(8)}"
        body.update(given(queue=queue, version=version, tags=dict(tags) if tags else None))
        if attributes:
            body["attributes"] = self.codec.encode(dict(attributes))
        if priority:
            body["priority"] = priority
        body.update(given(lane=lane, timeout_ms=_span(timeout), delay_ms=_span(delay)))
        body.update(given(deadline_ms=_moment(deadline), start_at_ms=_moment(start_at)))
        headers = {name: value for name, value in (trace or {}).items() if name in ("traceparent", "tracestate")}
        started = await self._change("POST", "/v1/runs", body, headers)
        return RunHandle(self, started["run"], hint)

    def run(self, id: str, workflow: Workflow[Any, R] | None = None) -> RunHandle[R]:
        """A handle of an existing run; ``workflow`` gives its result a type."""
        return RunHandle(self, id, workflow.hint if workflow is not None else Any)

    async def list(self, /, **query: Any) -> Document:
        """Lists runs: ``status``, ``workflow``, ``tag``, ``where``, ``since_ms``, ``parent``, ``order``, ``after``, ``limit``."""
        return await self.call("GET", with_query("/v1/runs", **query))  # type: ignore[no-any-return]

    async def show(self, run: str) -> Document:
        """A run with its steps, waits and questions."""
        return await self._of(run)  # type: ignore[no-any-return]

    async def _of(self, /, run: str, what: str = "", **query: Any) -> Any:
        path = f"/v1/runs/{quoted(run)}" + (f"/{what}" if what else "")
        return await self.call("GET", with_query(path, **query))

    async def history(self, /, run: str, **query: Any) -> Document:
        """The log of a run: ``branch``, ``after``, ``limit``."""
        return await self._of(run, "history", **query)  # type: ignore[no-any-return]

    async def why(self, run: str) -> Document:
        """Explains why a run does not move, and what to do."""
        return await self._of(run, "why")  # type: ignore[no-any-return]

    async def published(self, run: str, name: str, type: Any = Any, *, default: Any = _UNSET) -> Any:
        """The latest value that a run published under a name; ``default`` if it published none (otherwise GS0168)."""
        try:
            found = await self._of(run, f"published/{quoted(name)}")
        except Problem as problem:
            if default is not _UNSET and problem.code == "GS0168":
                return default
            raise
        return self.codec.decode(found["value"], type)

    async def published_values(self, run: str) -> Document:
        """All values that a run published, as JSON data."""
        return await self._of(run, "published")  # type: ignore[no-any-return]

    async def request(
        self,
        run: str,
        name: str,
        payload: Any = None,
        type: Any = Any,
        *,
        id: str | None = None,
        timeout: Span | None = None,
    ) -> Any:
        """Sends a request to a run and waits for its answer. The same ``id`` is the same request.

        Raises :class:`Problem` with GS0170 if the run refuses it, with GS0171 if it ends without an answer, or TimeoutError.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + millis(timeout) / 1000
        body: Document = {"payload": self.codec.encode(payload), "id": id or _secrets.token_hex(16)}
        place = f"/v1/runs/{quoted(run)}/requests/{quoted(name)}"
        found = await self._change("POST", place, {**body, "wait_ms": 0})
        while found["reply"] == "pending":
            wait = _POLL if deadline is None else max(0.0, min(_POLL, deadline - loop.time()))
            path = with_query(place, id=found["id"], event=found["event"], wait_ms=int(wait * 1000))
            found = await self._patient(path, wait)
            if found["reply"] == "pending" and deadline is not None and loop.time() >= deadline:
                raise TimeoutError(f"run {run} did not answer request {name} in time")
        if found["reply"] == "answered":
            return self.codec.decode(found.get("answer"), type)
        if found["reply"] == "refused":
            raise Problem(f"run {run} refused request {name}: {found.get('refused')}", status=409, code="GS0170", document=found)
        message = f"run {run} ended ({found.get('status')}) without an answer to request {name}"
        raise Problem(message, status=409, code="GS0171", document=found)

    async def _patient(self, path: str, wait: float) -> Any:
        """Reads; a server that does not answer is asked again for a while."""
        pause = 0.1
        while True:
            try:
                return await self.call("GET", path, wait=wait)
            except Unreachable:
                if pause > 2.0:
                    raise
                await asyncio.sleep(pause)
                pause *= 2

    async def diff(self, run: str, left: str, right: str) -> Document:
        """Compares two branches of a run, such as ``b1`` and ``b2``."""
        return await self._of(run, "diff", left=left, right=right)  # type: ignore[no-any-return]

    async def undo_recovery(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Returns to the branch before the latest recovery."""
        return await self._command(run, "undo-recovery", {"reason": reason, **given(by=by)})

    async def branches(self, run: str) -> Document:
        """The branches of a run."""
        return await self._of(run, "branches")  # type: ignore[no-any-return]

    async def poll(self, run: str, wait: float = 0.0) -> Document:
        """Status, output and failure of a run; waits up to ``wait`` seconds for its end."""
        path = with_query(f"/v1/runs/{quoted(run)}/result", wait_ms=int(wait * 1000))
        return await self._patient(path, wait)  # type: ignore[no-any-return]

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
            if status in TERMINAL:
                error = exception_of(ending.get("failure") or {"message": f"the run is {status}"}, RunFailed)
                assert isinstance(error, RunFailed)
                error.run, error.status = run, status
                raise error
            if deadline is not None and loop.time() >= deadline:
                raise TimeoutError(f"run {run} is {status}, and has not ended in time")

    async def signal(self, run: str, name: str, payload: Any = None, *, id: str | None = None) -> Document:
        """Sends a signal. The same ``id`` is delivered once."""
        body = given(name=name, payload=self.codec.encode(payload), id=id)
        body.setdefault("payload", None)
        return await self._command(run, "signal", body)

    async def _command(self, run: str, what: str, body: Document) -> Document:
        return await self._change("POST", f"/v1/runs/{quoted(run)}/{what}", body)  # type: ignore[no-any-return]

    async def answer(self, run: str, question: str, answer: Any, *, by: str | None = None) -> Document:
        """Answers a question of a run."""
        body = {"answer": self.codec.encode(answer), **given(by=by)}
        return await self._command(run, f"questions/{quoted(question)}/answer", body)

    async def questions(self, /, run: str | None = None, **query: Any) -> Document:
        """Open questions, of one run or of all."""
        if run is not None:
            return await self._of(run, "questions")  # type: ignore[no-any-return]
        return await self.call("GET", with_query("/v1/questions", **query))  # type: ignore[no-any-return]

    async def show_question(self, run: str, path: str) -> Document:
        """One question of a run, open or answered."""
        return await self._of(run, f"questions/{quoted(path)}")  # type: ignore[no-any-return]

    async def question(self, run: str, name: str | None = None, timeout: Span | None = None) -> Document:
        """Waits until a run asks a question, the one of this name or any. Raises :class:`Problem` if the run ends, or
        TimeoutError."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + millis(timeout) / 1000
        mark: Any = None
        while True:
            path = with_query("/v1/changes", after=mark, wait_ms=0 if mark is None else 2000)
            mark = (await self._patient(path, 2.0))["mark"]
            for question in (await self._patient(f"/v1/runs/{quoted(run)}/questions", 0.0))["items"]:
                if name is None or question["path"] == name:
                    return question  # type: ignore[no-any-return]
            status = (await self.poll(run))["status"]
            if status in TERMINAL:
                asked = "no open question" if name is None else f"no open question {name}"
                raise Problem(
                    f"run {run} is {status} and has {asked}",
                    code="GS0105",
                    hint="read its result; its log has the questions that were answered",
                )
            if deadline is not None and loop.time() >= deadline:
                raise TimeoutError(f"run {run} did not ask in time")

    async def pause(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Lets a run begin no new effect."""
        return await self._command(run, "pause", {"reason": reason, **given(by=by)})

    async def resume(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Lets a paused or parked run continue."""
        return await self._command(run, "resume", {"reason": reason, **given(by=by)})

    async def cancel(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Asks a run to stop between two effects, and undoes its steps."""
        return await self._command(run, "cancel", {"reason": reason, **given(by=by)})

    async def terminate(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Ends a run at once; nothing is undone."""
        return await self._command(run, "terminate", {"reason": reason, **given(by=by)})

    async def withdraw(self, run: str, what: str | None = None, reason: str = "", *, by: str | None = None) -> Document:
        """Takes back a pending request, such as to cancel."""
        return await self._command(run, "withdraw", {"reason": reason, **given(by=by, what=what)})

    async def note(self, run: str, reason: str, *, by: str | None = None) -> Document:
        """Adds a note for people to the log."""
        return await self._command(run, "note", {"reason": reason, **given(by=by)})

    async def requeue(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Gives a run a task again."""
        return await self._command(run, "requeue", {"reason": reason, **given(by=by)})

    async def retry(self, run: str, reason: str = "", *, by: str | None = None, drop_cancel: bool = False) -> Document:
        """Runs a failed run again from the step that failed, on a new branch."""
        return await self._command(run, "retry", {"reason": reason, "drop_cancel": drop_cancel, **given(by=by)})

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
        body: Document = {"to": to, "reason": reason, **given(by=by)}
        body.update(compensate=compensate, drop_mail=drop_mail, drop_cancel=drop_cancel, dry_run=dry_run)
        if input is not None:
            body["input"] = self.codec.encode(input)
        return await self._command(run, "jump", body)

    async def reset(self, run: str, reason: str = "", *, by: str | None = None) -> Document:
        """Starts a run over, on a new branch."""
        return await self._command(run, "reset", {"reason": reason, **given(by=by)})

    async def migrate(self, run: str, to_version: int, reason: str = "", *, by: str | None = None) -> Document:
        """Moves a run to another version of its workflow."""
        return await self._command(run, "migrate", {"to_version": to_version, "reason": reason, **given(by=by)})

    async def follow(self, run: str | None = None, after: int = 0) -> AsyncGenerator[Document, None]:
        """Follows the log of a run until it ends, or of all runs: each event once and in order, over reconnects."""
        path = with_query(f"/v1/runs/{quoted(run)}/events", after=after or None) if run else "/v1/events"
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


def _span(span: Span | None) -> int | None:
    return None if span is None else millis(span)


def _moment(time: dt.datetime | None) -> int | None:
    return None if time is None else moment(time)
