"""A checkpointer of LangGraph on a Goldseam store, which refuses a second writer of a thread.

A thread is a run, and each change of the thread is an event of its log::

    with GoldseamSaver("sqlite:agents.db") as saver:
        graph = builder.compile(checkpointer=saver)

A saver that writes to a thread holds the claim of its run, and gives it up after a pause (``hold`` seconds). While another
process holds it, a write raises an error with the code GS0638. A process that lost its claim, because it was frozen, is refused
by the log: two writers never interleave.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, get_checkpoint_metadata
from langgraph.checkpoint.memory import InMemorySaver

from .._engine import connect
from .._errors import Error, Problem
from .._transport import Transport

_WORKFLOW = "langgraph-thread"
_LOST = ("GS0114", "GS0311", "GS0312")
#: How long a write waits for the claim of its thread.
_PATIENCE = 5.0


class _Thread:
    """What this process knows of a thread."""

    def __init__(self, thread: str) -> None:
        self.id = thread
        digest = hashlib.sha256(thread.encode()).hexdigest()[:32]
        self.run = f"langgraph-{digest}"
        self.queue = f"langgraph-{digest}"
        self.end = 0
        self.branch: Any = None
        #: Operations in the log: changes and waits.
        self.ord = 0
        self.worker = ""
        self.token = ""
        self.serial = 0
        self.used = 0.0
        self.wait = ""

    @property
    def is_held(self) -> bool:
        return bool(self.token)

    def drop(self) -> None:
        self.worker = self.token = ""


class GoldseamSaver(BaseCheckpointSaver[str]):
    """A checkpointer on ``sqlite:``, ``postgres:``, ``s3:`` or ``memory:``, or on a server (``http://…``)."""

    def __init__(self, url: str | Transport, *, key: str | None = None, hold: float = 2.0, serde: Any = None) -> None:
        super().__init__(serde=serde)
        self._transport: Transport = connect(url, key=key) if isinstance(url, str) else url
        self._owns_transport = isinstance(url, str)
        self._hold = hold
        self._lease = 600.0 if self._transport.embedded else 10.0
        self._memory = InMemorySaver(serde=serde)
        self._threads: dict[str, _Thread] = {}
        self._lock = threading.RLock()
        self._closed = threading.Event()
        threading.Thread(target=self._beat, name="goldseam-langgraph", daemon=True).start()

    def __enter__(self) -> "GoldseamSaver":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Gives up all threads."""
        self._closed.set()
        with self._lock:
            for thread in self._threads.values():
                self._give_up(thread)
        if self._owns_transport:
            self._transport.close()

    # -------------------------------------------------------------------------------------------- log

    def _post(self, path: str, body: Any) -> Any:
        return self._transport.request("POST", path, body, wait=_PATIENCE)

    def _dumped(self, value: Any) -> list[str]:
        kind, data = self.serde.dumps_typed(value)
        return [kind, base64.b64encode(data).decode("ascii")]

    def _loaded(self, data: list[str]) -> Any:
        return self.serde.loads_typed((data[0], base64.b64decode(data[1])))

    def _thread(self, thread: str) -> _Thread:
        return self._threads.setdefault(thread, _Thread(thread))

    def _append(self, thread: _Thread, doings: list[dict[str, Any]]) -> Any:
        thread.serial += 1
        body = {"token": thread.token, "id": str(thread.serial), "after": thread.end, "doings": doings}
        try:
            answer = self._post("/v1/executions/append", body)
        except Problem as problem:
            if problem.code in _LOST:
                thread.drop()
                raise self._refusal(thread) from problem
            raise
        thread.end = answer["end"]
        return answer

    @staticmethod
    def _refusal(thread: _Thread) -> Error:
        return Error(
            f"another process writes to thread {thread.id!r}",
            code="GS0638",
            hint="let one process at a time execute a thread, or wait until the other one pauses",
        )

    def _own(self, thread: _Thread) -> None:
        """Claims the run of a thread, unless this process has it."""
        thread.used = time.monotonic()
        if thread.is_held:
            return
        body = {"workflow": _WORKFLOW, "id": thread.run, "queue": thread.queue, "version": 1, "input": {"thread": thread.id}}
        self._post("/v1/runs", body)
        registration = {
            "name": "langgraph", "workflows": [f"{_WORKFLOW}@1"], "queues": [thread.queue], "slots": 1,
            "lease_ms": int(self._lease * 1000),
        }  # fmt: skip
        worker = self._post("/v1/workers", registration)["worker"]
        deadline = time.monotonic() + _PATIENCE
        try:
            if self._transport.request("GET", f"/v1/runs/{thread.run}/result")["status"] == "waiting":
                self._post(f"/v1/runs/{thread.run}/signal", {"name": "write", "payload": None})
            while True:
                claim = {"limit": 1, "holding": [], "wait_ms": 1000}
                found = self._post(f"/v1/workers/{worker}/claim", claim)["executions"]
                if found:
                    break
                if time.monotonic() >= deadline:
                    raise self._refusal(thread)
        except BaseException:
            self._transport.request("DELETE", f"/v1/workers/{worker}")
            raise
        thread.worker, thread.token, thread.serial = worker, found[0]["token"], 0
        self._reload(thread, found[0]["events"], found[0]["end"])
        if found[0]["more"]:
            news = self._post("/v1/executions/events", {"token": thread.token, "after": thread.end})
            self._fold(thread, news["events"])
            thread.end = news["end"]
        if thread.wait:
            self._fold(thread, self._append(thread, [{"check": {"path": thread.wait}}])["events"])

    def _give_up(self, thread: _Thread) -> None:
        if not thread.is_held:
            return
        path = f"idle-{thread.ord}"
        try:
            wait = {"wait": {"path": path, "ord": thread.ord, "signals": ["write"]}}
            answer = self._append(thread, [wait, {"release": {"reason": "unload"}}])
            self._fold(thread, answer["events"])
            self._transport.request("DELETE", f"/v1/workers/{thread.worker}")
        except Error:
            pass
        thread.drop()

    def _beat(self) -> None:
        while not self._closed.wait(min(self._lease / 3, 1.0, max(self._hold / 2, 0.05))):
            with self._lock:
                for thread in list(self._threads.values()):
                    if not thread.is_held:
                        continue
                    if time.monotonic() - thread.used > self._hold:
                        self._give_up(thread)
                        continue
                    body = {"holding": [{"token": thread.token, "after": thread.end}], "wait_ms": 0}
                    try:
                        answer = self._post(f"/v1/workers/{thread.worker}/heartbeat", body)
                    except Problem as problem:
                        if problem.code in _LOST:
                            thread.drop()
                        continue
                    except Error:
                        continue
                    if answer["lost"]:
                        thread.drop()

    def _reload(self, thread: _Thread, events: list[dict[str, Any]], end: int) -> None:
        self._memory.delete_thread(thread.id)
        thread.ord, thread.wait, thread.end = 0, "", end
        self._fold(thread, events)

    def _fold(self, thread: _Thread, events: list[dict[str, Any]]) -> None:
        for entry in events:
            event = entry.get("event", entry)
            kind, data = event["type"], event.get("data") or {}
            if kind == "step.completed":
                thread.ord = data["ord"] + 1
                self._apply(thread.id, data["output"])
            elif kind == "wait.started":
                thread.ord, thread.wait = data["ord"] + 1, data["path"]
            elif kind == "wait.resolved":
                thread.wait = ""

    def _write(self, thread_id: str, change: dict[str, Any]) -> None:
        """Appends a change to the log of a thread, then applies it."""
        with self._lock:
            thread = self._thread(thread_id)
            self._own(thread)
            step = {"path": f"change-{thread.ord}", "ord": thread.ord, "attempt": 1, "output": change}
            self._fold(thread, self._append(thread, [{"step_completed": step}])["events"])

    def _read(self, thread_id: str) -> None:
        """Brings the memory of a thread up to date."""
        with self._lock:
            thread = self._thread(thread_id)
            if thread.is_held:
                thread.used = time.monotonic()
                return
            try:
                shown = self._transport.request("GET", f"/v1/runs/{thread.run}")
            except Problem as problem:
                if problem.status == 404:
                    return
                raise
            if (shown["as_of"], shown["branch"]) == (thread.end, thread.branch):
                return
            events: list[dict[str, Any]] = []
            after = 0
            while True:
                page = self._transport.request("GET", f"/v1/runs/{thread.run}/history?after={after}&limit=500")
                events += page["items"]
                if len(page["items"]) < 500:
                    break
                after = page["items"][-1]["seq"]
            self._reload(thread, events, shown["as_of"])
            thread.branch = shown["branch"]

    def _read_all(self) -> list[str]:
        path = f"/v1/runs?workflow={_WORKFLOW}&limit=500"
        found, after = [], ""
        while True:
            page = self._transport.request("GET", path + (f"&after={after}" if after else ""))
            for item in page["items"]:
                thread = self._transport.request("GET", f"/v1/runs/{item['run']}")["input"]["thread"]
                found.append(thread)
                self._read(thread)
            after = page.get("next") or ""
            if not after:
                return found

    # ----------------------------------------------------------------------------------------- changes

    def _apply(self, thread: str, change: dict[str, Any]) -> None:
        what = change["what"]
        config: Any = {"configurable": {"thread_id": thread, **change.get("config", {})}}
        if what == "put":
            checkpoint, metadata = self._loaded(change["checkpoint"]), self._loaded(change["metadata"])
            self._memory.put(config, checkpoint, metadata, change["versions"])
        elif what == "writes":
            self._memory.put_writes(config, self._loaded(change["writes"]), change["task"], change["path"])
        elif what == "forget":
            for namespace, checkpoint_id in change["ids"]:
                self._memory.storage[thread][namespace].pop(checkpoint_id, None)
                self._memory.writes.pop((thread, namespace, checkpoint_id), None)

    @staticmethod
    def _config(config: Any) -> dict[str, str]:
        given = config["configurable"]
        place = {"checkpoint_ns": given.get("checkpoint_ns", "")}
        return {**place, "checkpoint_id": given["checkpoint_id"]} if given.get("checkpoint_id") else place

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        place = self._config(config)
        change = {
            "what": "put",
            "config": place,
            "checkpoint": self._dumped(checkpoint),
            "metadata": self._dumped(get_checkpoint_metadata(config, metadata)),
            "versions": dict(new_versions),
        }
        thread = config["configurable"]["thread_id"]
        self._write(thread, change)
        namespace = place["checkpoint_ns"]
        return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        change = {
            "what": "writes",
            "config": self._config(config),
            "writes": self._dumped(list(writes)),
            "task": task_id,
            "path": task_path,
        }
        self._write(config["configurable"]["thread_id"], change)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        with self._lock:
            self._read(config["configurable"]["thread_id"])
            return self._memory.get_tuple(config)

    def list(self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None) -> Iterator[CheckpointTuple]:
        with self._lock:
            if config is None:
                self._read_all()
            else:
                self._read(config["configurable"]["thread_id"])
            found = [*self._memory.list(config, filter=filter, before=before, limit=limit)]
        return iter(found)

    def _checkpoints(self, thread: str) -> Iterator[tuple[str, str, Any]]:
        for namespace, checkpoints in self._memory.storage.get(thread, {}).items():
            for checkpoint_id, stored in checkpoints.items():
                yield namespace, checkpoint_id, self._memory.serde.loads_typed(stored[1])

    def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            self._read(thread_id)
            ids = [[namespace, known] for namespace, known, _ in self._checkpoints(thread_id)]
            if ids:
                self._write(thread_id, {"what": "forget", "ids": ids})

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        with self._lock:
            for thread in self._read_all():
                self._forget(thread, lambda _, __, metadata: metadata.get("run_id") in run_ids)

    def _forget(self, thread: str, chosen: Any) -> None:
        ids = [[namespace, known] for namespace, known, metadata in self._checkpoints(thread) if chosen(namespace, known, metadata)]
        if ids:
            self._write(thread, {"what": "forget", "ids": ids})

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        with self._lock:
            self._read(source_thread_id)
            source: Any = {"configurable": {"thread_id": source_thread_id}}
            for found in reversed([*self._memory.list(source)]):
                given = found.config["configurable"]
                parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
                place = {"thread_id": target_thread_id, "checkpoint_ns": given["checkpoint_ns"]}
                config: Any = {"configurable": {**place, **({"checkpoint_id": parent} if parent else {})}}
                stored = self.put(config, found.checkpoint, found.metadata, found.checkpoint["channel_versions"])
                by_task: dict[str, list[tuple[str, Any]]] = {}
                for task, channel, value in found.pending_writes or []:
                    by_task.setdefault(task, []).append((channel, value))
                for task, writes in by_task.items():
                    self.put_writes(stored, writes, task)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        with self._lock:
            for thread in thread_ids:
                self._read(thread)
                latest: dict[str, str] = {}
                for namespace, known, _ in self._checkpoints(thread):
                    latest[namespace] = max(latest.get(namespace, ""), known)
                keep = strategy == "keep_latest"
                self._forget(thread, lambda namespace, known, _: not keep or latest[namespace] != known)

    # ----------------------------------------------------------------------------------------- async

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: int | None = None
    ) -> AsyncIterator[CheckpointTuple]:
        for found in await asyncio.to_thread(self.list, config, filter=filter, before=before, limit=limit):
            yield found

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    def get_next_version(self, current: str | None, channel: None) -> str:
        return self._memory.get_next_version(current, channel)
