"""The verbs of a client that concern the store: healing, operations on many runs, pruning, the queue and locks."""

from __future__ import annotations

import datetime as dt
import urllib.parse
from typing import Any, Mapping, Sequence

from ._codec import Codec
from ._errors import Misuse
from ._options import Span, millis

Document = dict[str, Any]


def quoted(text: str) -> str:
    """A segment of a path."""
    return urllib.parse.quote(text, safe="")


def with_query(path: str, **parameters: Any) -> str:
    """A path with the given parameters."""
    given = [(name, _text(item)) for name, value in parameters.items() if value is not None for item in _items(value)]
    return f"{path}?{urllib.parse.urlencode(given)}" if given else path


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return str(moment(value))
    return str(value)


def moment(time: dt.datetime) -> int:
    """A time in milliseconds since 1970."""
    if time.tzinfo is None:
        raise Misuse(f"the time {time} has no time zone", hint="use datetime(..., tzinfo=timezone.utc)")
    return int(time.timestamp() * 1000)


def given(**fields: Any) -> Document:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


class StoreVerbs:
    """The part of a client that concerns the store."""

    codec: Codec

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
        raise NotImplementedError

    async def _change(self, method: str, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
        raise NotImplementedError

    async def _command(self, run: str, what: str, body: Document) -> Document:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ healing

    async def recover(
        self, run: str, rule: str | None = None, *, dry_run: bool = False, compensate: bool = False, reason: str = ""
    ) -> Document:
        """Applies the remedy of a rule to a run now."""
        body = {"dry_run": dry_run, "compensate": compensate, "reason": reason, **given(rule=rule)}
        return await self._command(run, "recover", body)

    async def doctor(self, *, fix: bool = False, deep: bool = False, rule: str | None = None) -> Document:
        """Examines the store and all active runs; with ``fix`` also heals them."""
        return await self.call("POST", "/v1/doctor", {"fix": fix, "deep": deep, **given(rule=rule)})  # type: ignore[no-any-return]

    async def sweep(self, *, dry_run: bool = False, stale_after: Span | None = None, from_log: bool = False) -> Document:
        """Makes one sweep: finds stalled runs and, unless ``dry_run``, heals them."""
        body = {"dry_run": dry_run, "from_log": from_log}
        body.update(given(stale_after_ms=None if stale_after is None else millis(stale_after)))
        return await self.call("POST", "/v1/sweep", body)  # type: ignore[no-any-return]

    async def recoveries(self, /, **query: Any) -> Document:
        """Recoveries, latest first: ``since_ms``, ``ended``, ``rule``, ``after``, ``limit``."""
        return await self.call("GET", with_query("/v1/recoveries", **query))  # type: ignore[no-any-return]

    async def recovery_stats(self, /, **query: Any) -> Document:
        """Counts and durations of recoveries by rule: ``since_ms``, ``latest``."""
        return await self.call("GET", with_query("/v1/recoveries/stats", **query))  # type: ignore[no-any-return]

    async def remedies(self, run: str) -> Document:
        """What each rule that applies to a run would do, the most urgent first. Changes nothing."""
        return await self.call("GET", f"/v1/runs/{quoted(run)}/remedies")  # type: ignore[no-any-return]

    async def statuses(self) -> Document:
        """The number of runs in each status, without operations."""
        return await self.call("GET", "/v1/statuses")  # type: ignore[no-any-return]

    async def activity(self, /, **query: Any) -> Document:
        """Starts, ends and recoveries for each interval of a recent time: ``since_ms``, ``interval_ms``."""
        return await self.call("GET", with_query("/v1/activity", **query))  # type: ignore[no-any-return]

    async def suggestions(self, of: str, *, text: str | None = None, limit: int | None = None) -> Document:
        """Values for a filter of the list of runs, the most frequent first: ``of`` names the filter."""
        query = given(text=text, limit=limit)
        return await self.call("GET", with_query("/v1/suggestions", of=of, **query))  # type: ignore[no-any-return]

    async def current_key(self) -> Document:
        """The name and the scopes of the key of this client."""
        return await self.call("GET", "/v1/key")  # type: ignore[no-any-return]

    async def nodes(self) -> Document:
        """The nodes of the store."""
        return await self.call("GET", "/v1/nodes")  # type: ignore[no-any-return]

    # ------------------------------------------------------------------------------------ queue and locks

    async def tasks(self, /, **query: Any) -> Document:
        """Lists tasks: ``queue``, ``state``, ``run``, ``owner``, ``after``, ``limit``."""
        return await self.call("GET", with_query("/v1/tasks", **query))  # type: ignore[no-any-return]

    async def submit_task(self, /, kind: str, payload: Any = None, **options: Any) -> Document:
        """Adds a task to a queue: ``queue``, ``id``, ``key``, ``priority``, ``delay_ms``, ``attempts_max``, ``silence_max_ms``."""
        body = {"kind": kind, "payload": self.codec.encode(payload), **options}
        return await self._change("POST", "/v1/tasks", body)  # type: ignore[no-any-return]

    async def claim_tasks(self, /, owner: str, *, wait: float = 0.0, **options: Any) -> Document:
        """Claims tasks: ``queue``, ``kind``, ``limit``."""
        body = {"owner": owner, "wait_ms": int(wait * 1000), **options}
        return await self.call("POST", "/v1/tasks/claim", body, wait=wait)  # type: ignore[no-any-return]

    async def heartbeat_task(self, task: str, token: str, details: Any = None) -> Document:
        """Reports that a task is being worked on."""
        body: Document = {"token": token}
        if details is not None:
            body["details"] = self.codec.encode(details)
        return await self.call("POST", f"/v1/tasks/{quoted(task)}/heartbeat", body)  # type: ignore[no-any-return]

    async def complete_task(self, task: str, token: str, result: Any = None) -> Document:
        """Completes a task."""
        body = {"token": token, "result": self.codec.encode(result)}
        return await self._change("POST", f"/v1/tasks/{quoted(task)}/complete", body)  # type: ignore[no-any-return]

    async def fail_task(self, task: str, token: str, failure: Document) -> Document:
        """Fails a task."""
        body = {"token": token, "failure": failure}
        return await self._change("POST", f"/v1/tasks/{quoted(task)}/fail", body)  # type: ignore[no-any-return]

    async def release_task(self, task: str, token: str) -> Document:
        """Returns a task to its queue without blame."""
        return await self._change("POST", f"/v1/tasks/{quoted(task)}/release", {"token": token})  # type: ignore[no-any-return]

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

    async def locks(self, /, **query: Any) -> Document:
        """Lists locks."""
        return await self.call("GET", with_query("/v1/locks", **query))  # type: ignore[no-any-return]

    async def stale_locks(self) -> Document:
        """Locks whose holders are gone."""
        return await self.call("GET", "/v1/locks/stale")  # type: ignore[no-any-return]

    async def acquire_lock(self, name: str, holder: str, *, ttl: Span | None = None) -> Document:
        """Acquires a lock; the document has its fence."""
        body = {"holder": holder, **given(ttl_ms=None if ttl is None else millis(ttl))}
        return await self._change("POST", f"/v1/locks/{quoted(name)}/acquire", body)  # type: ignore[no-any-return]

    async def extend_lock(self, name: str, holder: str, fence: int, *, ttl: Span | None = None) -> Document:
        """Extends a lock."""
        body = {"holder": holder, "fence": fence, **given(ttl_ms=None if ttl is None else millis(ttl))}
        return await self.call("POST", f"/v1/locks/{quoted(name)}/extend", body)  # type: ignore[no-any-return]

    async def release_lock(self, name: str, holder: str, fence: int) -> Document:
        """Releases a lock."""
        body = {"holder": holder, "fence": fence}
        return await self.call("POST", f"/v1/locks/{quoted(name)}/release", body)  # type: ignore[no-any-return]

    async def task(self, task: str) -> Document:
        """A task."""
        return await self.call("GET", f"/v1/tasks/{quoted(task)}")  # type: ignore[no-any-return]

    async def cancel_task(self, task: str) -> Document:
        """Cancels a task."""
        return await self._change("POST", f"/v1/tasks/{quoted(task)}/cancel", {})  # type: ignore[no-any-return]

    async def lock(self, name: str) -> Document:
        """A lock."""
        return await self.call("GET", f"/v1/locks/{quoted(name)}")  # type: ignore[no-any-return]

    # ---------------------------------------------------------------------------------------- many runs

    async def workflows(self) -> Document:
        """The workflows that live nodes have."""
        return await self.call("GET", "/v1/workflows")  # type: ignore[no-any-return]

    async def groups(self, by: str | None = None, *, where: str | None = None, limit: int | None = None) -> Document:
        """Counts runs, by ``cause``, ``workflow``, ``status``, ``version``, ``tag.NAME`` or an attribute."""
        return await self.call("GET", with_query("/v1/groups", by=by, where=where, limit=limit))  # type: ignore[no-any-return]

    async def failures(self, *, where: str | None = None) -> Document:
        """Failed runs by cause."""
        return await self.call("GET", with_query("/v1/failures", where=where))  # type: ignore[no-any-return]

    async def operate(self, /, verb: str, where: str, *, dry_run: bool = False, **options: Any) -> Document:
        """Does a verb to every run that a condition selects: ``retry``, ``resume``, ``cancel``, ``pause``, ``recover``, ``signal``.

        Options: ``rate``, ``canary``, ``canary_timeout_ms``, ``reason``, ``by``, ``signal``, ``payload``. With ``dry_run`` it only
        says what it would do.
        """
        body = {"verb": verb, "where": where, **options}
        if dry_run:
            return await self.call("POST", "/v1/operations/preview", body)  # type: ignore[no-any-return]
        return await self._change("POST", "/v1/operations", body)  # type: ignore[no-any-return]

    async def operations(self, /, **parameters: Any) -> Document:
        """Lists operations: ``after``, ``limit``."""
        return await self.call("GET", with_query("/v1/operations", **parameters))  # type: ignore[no-any-return]

    async def operation(self, run: str) -> Document:
        """The progress of an operation."""
        return await self.call("GET", f"/v1/operations/{quoted(run)}")  # type: ignore[no-any-return]

    async def pause_operation(self, run: str, reason: str = "") -> Document:
        """Pauses an operation."""
        return await self._change("POST", f"/v1/operations/{quoted(run)}/pause", {"reason": reason})  # type: ignore[no-any-return]

    async def resume_operation(self, run: str, reason: str = "") -> Document:
        """Resumes an operation."""
        return await self._change("POST", f"/v1/operations/{quoted(run)}/resume", {"reason": reason})  # type: ignore[no-any-return]

    async def stop_operation(self, run: str, reason: str = "") -> Document:
        """Stops an operation for good."""
        return await self._change("POST", f"/v1/operations/{quoted(run)}/stop", {"reason": reason})  # type: ignore[no-any-return]

    async def prune(self, /, ended_before: Span, *, dry_run: bool = False, **options: Any) -> Document:
        """Archives and removes runs that ended at least ``ended_before`` seconds ago: ``workflow``, ``status``, ``limit``, ``reason``."""
        if dry_run:
            return await self.call("GET", with_query("/v1/prune", completed_before_ms=millis(ended_before), **options))  # type: ignore[no-any-return]
        return await self.call("POST", "/v1/prune", {"completed_before_ms": millis(ended_before), **options})  # type: ignore[no-any-return]

    async def create_pass(
        self, run: str, *, answer: str | None = None, signal: str | None = None, valid_for: Span | None = None
    ) -> Document:
        """Creates a pass, which lets its bearer answer one question or send one signal without a key."""
        span = None if valid_for is None else millis(valid_for)
        body = given(answer=answer, signal=signal, valid_for_ms=span)
        return await self.call("POST", f"/v1/runs/{quoted(run)}/passes", body)  # type: ignore[no-any-return]
