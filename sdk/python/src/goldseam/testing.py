"""Tests of workflows: a fresh engine, virtual time, and a crash before and after every append.

:class:`Tester` runs a workflow on a real engine with a store in memory. A crash ends the worker as the death of its process
would: what it did not append is lost, nothing is released, and another worker takes over the run. The pytest fixture
``goldseam`` is a :class:`Tester`.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import itertools
import threading
import time
from typing import Any, Callable, Coroutine, Iterable, Mapping, TypeVar

from ._codec import JsonCodec
from ._embedded import NativeTransport
from ._engine import Engine, Opening, open as _open
from ._errors import Closed, RunFailed
from ._transport import Stream
from ._workflows import Workflow

T = TypeVar("T")

#: A run without an event for this long, in real time, is stuck.
PATIENCE = 30.0


class CrashSearchFailed(AssertionError):
    """A run did not survive a crash; the message names the case and shows the log."""


@dataclasses.dataclass(frozen=True)
class Case:
    """Where the first worker crashes: before or after its n-th append. Without a number it does not crash."""

    number: int = 0
    after: bool = False

    def __str__(self) -> str:
        if not self.number:
            return "without a crash"
        return f"crash {'after' if self.after else 'before'} append {self.number}"


@dataclasses.dataclass
class Report:
    """What a search found."""

    #: The outcome of the run without faults: its output, or the failure.
    outcome: Any
    #: Appends of the run without faults.
    appends: int
    #: Runs in total, one for each case.
    cases: int = 0
    #: The largest number of calls of each effect in a case, by name.
    most: dict[str, int] = dataclasses.field(default_factory=dict)


class World:
    """The outside world of a case: it records the effects of steps.

    ``did(effect, key)`` records a request to a service that deduplicates by key: requests with the same key count once.
    Without a key every request counts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._effects: dict[str, list[str | None]] = collections.defaultdict(list)

    def did(self, effect: str, key: str | None = None) -> None:
        """Records an effect."""
        with self._lock:
            self._effects[effect].append(key)

    def times(self, effect: str) -> int:
        """How often an effect was requested."""
        with self._lock:
            return len(self._effects.get(effect, []))

    def counts(self) -> dict[str, int]:
        """How often each effect counts: requests with the same key count once."""
        with self._lock:
            return {
                name: len({key for key in keys if key is not None}) + sum(key is None for key in keys)
                for name, keys in self._effects.items()
            }


class _Faulty:
    """A transport of one worker, which crashes at an append."""

    embedded = True

    def __init__(self, inner: NativeTransport, case: Case) -> None:
        self.inner = inner
        self.case = case
        self.appends = 0
        self.dead = False
        self.worker = ""
        self.crashed = threading.Event()

    def _alive(self) -> None:
        if self.dead:
            raise Closed("this worker crashed")

    def crash(self) -> None:
        self.dead = True
        self.crashed.set()

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, wait: float = 0.0
    ) -> Any:
        self._alive()
        if isinstance(body, dict) and "wait_ms" in body:
            # A crash must not wait for the end of a long poll.
            body = {**body, "wait_ms": min(body["wait_ms"], 200)}
        answer = self.inner.request(method, path, body, headers, wait)
        self._alive()
        return answer

    async def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, wait: float = 0.0
    ) -> Any:
        self._alive()
        if path != "/v1/executions/append":
            answer = await self.inner.send(method, path, body, headers, wait)
            if path == "/v1/workers":
                self.worker = answer["worker"]
            return answer
        self.appends += 1
        here = self.appends == self.case.number
        if here and not self.case.after:
            self.crash()
            self._alive()
        answer = await self.inner.send(method, path, body, headers, wait)
        if here:
            self.crash()
        self._alive()
        return answer

    def begin(self, path: str, body: Any) -> Any:
        self._alive()
        if self.appends + 1 == self.case.number:
            return None  # by ``send``, which crashes
        self.appends += 1
        return self.inner.begin(path, body)

    def stream(self, path: str, last_event_id: str | None = None) -> Stream:
        self._alive()
        return self.inner.stream(path, last_event_id)

    def close(self, drain: float = 0.0) -> None:
        pass


class Tester:
    """A fresh engine for a test."""

    __test__ = False

    def __init__(self, url: str = "memory:") -> None:
        self._url = url
        self._ids = itertools.count(1)
        #: The effects of the case that runs now; steps may record theirs here.
        self.world = World()

    def did(self, effect: str, key: str | None = None) -> None:
        """Records an effect in the world of the case that runs now."""
        self.world.did(effect, key)

    def open(self, *workflows: Workflow[Any, Any], **options: Any) -> Opening:
        """Opens an engine with virtual time: ``async with goldseam.open(checkout) as engine``."""
        return _open(self._url, workflows=workflows, virtual_time=True, **options)

    def run(
        self,
        workflow: Workflow[Any, T],
        *args: Any,
        answers: Mapping[str, Any] | None = None,
        signals: Iterable[tuple[str, Any]] = (),
        also: Iterable[Workflow[Any, Any]] = (),
    ) -> T:
        """Runs a workflow once, without faults. A sleep of days takes no real time.

        ``answers``: answers by question, sent when asked. ``signals``: names and contents, each sent once when the run waits
        for it. ``also``: other workflows, such as children.
        """
        script = _Script(answers or {}, list(signals))
        self.world = World()
        outcome, _ = _in_thread(self._case(Case(), workflow, args, script, list(also)))
        if isinstance(outcome, RunFailed):
            raise outcome
        return workflow_value(workflow, outcome)  # type: ignore[no-any-return]

    def every_crash(
        self,
        workflow: Workflow[Any, Any],
        *args: Any,
        answers: Mapping[str, Any] | None = None,
        signals: Iterable[tuple[str, Any]] = (),
        also: Iterable[Workflow[Any, Any]] = (),
        allow: Callable[[Any], bool] | None = None,
        cases_max: int = 1000,
    ) -> Report:
        """Runs a workflow once for each crash point: before and after each append of the first worker.

        In every case the run must end as without faults, or as ``allow`` accepts; and every effect that steps record by
        :meth:`did` must count as often as without faults.
        """
        script = (dict(answers or {}), list(signals))
        others = list(also)

        def one(case: Case) -> tuple[Any, _Faulty, dict[str, int]]:
            self.world = World()
            outcome, faulty = _in_thread(self._case(case, workflow, args, _Script(script[0], list(script[1])), others))
            return outcome, faulty, self.world.counts()

        calm, faulty, effects = one(Case())
        report = Report(calm, faulty.appends, 1)
        if faulty.appends * 2 > cases_max:
            raise CrashSearchFailed(f"{faulty.appends} appends are {faulty.appends * 2} cases; raise cases_max ({cases_max})")
        for number in range(1, faulty.appends + 1):
            for after in (False, True):
                case = Case(number, after)
                outcome, _, counts = one(case)
                report.cases += 1
                for name in counts:
                    report.most[name] = max(report.most.get(name, 0), self.world.times(name))
                if _shown(outcome) == _shown(calm):
                    if counts != effects:
                        raise CrashSearchFailed(
                            f"{workflow.name}, {case}: effects count {counts}, without a crash {effects}; "
                            "pass gs.idempotency_key() to services that deduplicate, or use at_most_once"
                        )
                elif allow is None or not allow(outcome):
                    raise CrashSearchFailed(
                        f"{workflow.name}, {case}: the run ended with {_shown(outcome)}, without a crash with {_shown(calm)}"
                    )
        return report

    def _fresh_url(self) -> str:
        """The URL of an empty store: each case has its own."""
        if not self._url.startswith("sqlite:"):
            return self._url
        path, mark, options = self._url.partition("?")
        return f"{path}-{next(self._ids)}{mark}{options}"

    async def _case(
        self, case: Case, workflow: Workflow[Any, Any], args: tuple[Any, ...], script: "_Script", also: list[Any]
    ) -> tuple[Any, _Faulty]:
        url = self._fresh_url()
        inner = NativeTransport(url, virtual_time=True)
        faulty = _Faulty(inner, case)
        workflows = [workflow, *also]
        first = await _open(url, workflows=workflows, transport=faulty, linger=0)
        client = await _open(url, transport=inner)
        second: Engine | None = None
        try:
            # The same id in every case: idempotency keys and chance are made of it.
            run = await client.start(workflow, *args, id="test-1")
            last, moved = -1, time.monotonic()
            while True:
                if faulty.crashed.is_set() and second is None:
                    inner.crash_worker(faulty.worker)
                    second = await _open(url, workflows=workflows, transport=_Shared(inner), linger=0)
                ending = await client.poll(run.id, 0.02)
                if ending["status"] == "completed":
                    return ending.get("output"), faulty
                if ending["status"] in ("failed", "cancelled"):
                    try:
                        await client.result(run.id)
                    except RunFailed as error:
                        return error, faulty
                shown = await client.show(run.id)
                if shown.get("parked") or shown["status"] == "parked":
                    why = await client.why(run.id)
                    raise CrashSearchFailed(f"{workflow.name}, {case}: the run is parked: {why}")
                if shown["as_of"] != last:
                    last, moved = shown["as_of"], time.monotonic()
                acted = await self._act(inner, client, script)
                if not acted and time.monotonic() - moved > PATIENCE:
                    log = await client.history(run.id, limit=100)
                    raise CrashSearchFailed(f"{workflow.name}, {case}: the run is stuck: {shown['waits']} {log}")
        finally:
            for engine in (first, second):
                if engine is not None and engine.worker is not None:
                    await engine.worker.stop(0)
            await asyncio.get_running_loop().run_in_executor(None, inner.close)

    async def _act(self, inner: NativeTransport, client: Engine, script: "_Script") -> bool:
        """Answers, signals, or moves the time, when runs wait for it."""
        soonest: int | None = None
        runs = (await client.list(limit=100))["items"]
        for item in runs:
            if item["status"] in ("completed", "failed", "cancelled"):
                continue
            run = item["run"]
            shown = await client.show(run)
            if shown["status"] in ("running", "queued") and not shown.get("waits"):
                if shown.get("step") is None or shown["status"] == "running":
                    return False
            for wait in shown.get("waits", []):
                for question in wait.get("inputs", []):
                    if script.answer(run, question) is not _NOTHING:
                        await client.answer(run, question, script.take_answer(run, question))
                        return True
                for name in wait.get("signals", []):
                    found = script.take_signal(name)
                    if found is not _NOTHING:
                        await client.signal(run, name, found)
                        return True
            dues = [wait["due"] for wait in shown.get("waits", []) if wait.get("due")]
            retry = [step["due"] for step in shown.get("steps", []) if step.get("due")]
            for due in [*dues, *retry]:
                soonest = due if soonest is None else min(soonest, due)
        if soonest is None:
            return False
        now = time.time() * 1000 + inner.ahead_ms
        if soonest > now:
            inner.advance((soonest - now) / 1000)
        return False


_NOTHING: Any = object()


class _Script:
    """What people do in a case."""

    def __init__(self, answers: Mapping[str, Any], signals: list[tuple[str, Any]]) -> None:
        self._answers = dict(answers)
        self._signals = list(signals)
        self._sent: set[tuple[str, str]] = set()

    def answer(self, run: str, question: str) -> Any:
        if (run, question) in self._sent:
            return _NOTHING
        name = question.rpartition("/")[2].partition("#")[0].partition(":")[0]
        return self._answers.get(question, self._answers.get(name, _NOTHING))

    def take_answer(self, run: str, question: str) -> Any:
        found = self.answer(run, question)
        self._sent.add((run, question))
        return found

    def take_signal(self, name: str) -> Any:
        for at, (known, value) in enumerate(self._signals):
            if known == name:
                del self._signals[at]
                return value
        return _NOTHING


class _Shared:
    """A transport that its user does not close."""

    embedded = True

    def __init__(self, inner: NativeTransport) -> None:
        self.inner = inner

    def request(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner.request(*args, **kwargs)

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        return await self.inner.send(*args, **kwargs)

    def begin(self, path: str, body: Any) -> Any:
        return self.inner.begin(path, body)

    def stream(self, path: str, last_event_id: str | None = None) -> Stream:
        return self.inner.stream(path, last_event_id)

    def close(self, drain: float = 0.0) -> None:
        pass


def workflow_value(workflow: Workflow[Any, Any], data: Any) -> Any:
    """Reads the output of a workflow by its type."""
    return JsonCodec().decode(data, workflow.hint)


def _shown(outcome: Any) -> str:
    if isinstance(outcome, RunFailed):
        return f"{outcome.status}: {outcome.message}"
    return repr(outcome)


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on a loop of its own, also if the calling thread has a running loop."""
    result: list[Any] = []

    def body() -> None:
        try:
            result.append((True, asyncio.run(work)))
        except BaseException as error:
            result.append((False, error))

    thread = threading.Thread(target=body, name="goldseam-tester")
    thread.start()
    thread.join()
    done, value = result[0]
    if not done:
        raise value
    return value  # type: ignore[no-any-return]


__all__ = ["Case", "CrashSearchFailed", "Report", "Tester", "World"]
