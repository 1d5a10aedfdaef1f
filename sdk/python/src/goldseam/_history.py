"""The history of an execution: events folded into operations by path."""

from __future__ import annotations

from typing import Any, Iterable

from ._paths import arm_of

_STEP = "step"


class Op:
    """An operation as the log has it."""

    __slots__ = (
        "path", "ord", "kind", "ended", "attempt", "started", "output", "failure", "due", "undo", "group", "remote",
        "child", "found", "input", "first", "last", "at", "checked", "scheduled", "opened", "completed",
    )  # fmt: skip

    def __init__(self, path: str, order: int, kind: str, seq: int) -> None:
        self.path = path
        self.ord = order
        self.kind = kind
        self.ended = False
        #: The largest attempt in the log.
        self.attempt = 0
        #: An attempt began and has not ended.
        self.started = False
        self.output: Any = None
        self.failure: dict[str, Any] | None = None
        #: When a timer fires, a wait times out, or the next attempt begins.
        self.due: int | None = None
        self.scheduled = False
        self.undo = False
        self.group = False
        self.remote = False
        self.child: str | None = None
        self.found: Any = None
        #: A wait for a child is open or was resolved.
        self.opened = False
        #: The operation has a result that can be undone.
        self.completed = False
        self.input: str | None = None
        self.first = seq
        self.last = seq
        self.at = 0
        #: The position up to which a check has looked for mail.
        self.checked = 0


class History:
    """Everything that an execution knows of its log."""

    def __init__(self, base: int = 0) -> None:
        self.base = base
        self.end = 0
        self.ops: dict[str, Op] = {}
        #: For each arm, the path at each place.
        self.places: dict[str, dict[int, str]] = {}
        #: For each arm, the last place.
        self.last_places: dict[str, int] = {}
        #: Operations by the child that they started.
        self.children: dict[str, Op] = {}
        self.mail: dict[int, tuple[str, dict[str, Any]]] = {}
        self.last_mail = 0
        self.changes: set[str] = set()
        self.undone: set[str] = set()
        self.undoing: set[str] = set()
        #: Why the run is being undone.
        self.failure: dict[str, Any] | None = None
        self.cancel_requested = False
        self.paused = False
        self.jump: dict[str, Any] | None = None
        self.claims = 0
        self.lost = False

    def add(self, events: Iterable[dict[str, Any]], end: int) -> None:
        """Folds events."""
        known = self.end
        for entry in events:
            seq = entry["seq"]
            if seq <= known:
                continue
            event = entry["event"]
            self._fold(event["type"], event.get("data") or {}, seq, entry["at"])
        if end > self.end:
            self.end = end

    def _op(self, data: dict[str, Any], kind: str, seq: int, at: int) -> Op:
        path = data["path"]
        op = self.ops.get(path)
        if op is None:
            order = data.get("ord", 0)
            op = self.ops[path] = Op(path, order, kind, seq)
            arm = arm_of(path)
            self.places.setdefault(arm, {})[order] = path
            self.last_places[arm] = max(order, self.last_places.get(arm, 0))
        op.last = seq
        op.at = at
        return op

    def _fold(self, kind: str, data: dict[str, Any], seq: int, at: int) -> None:
        handler = _FOLDS.get(kind)
        if handler is not None:
            handler(self, data, seq, at)

    def _step_started(self, data: dict[str, Any], seq: int, at: int) -> None:
        op = self._op(data, _STEP, seq, at)
        op.attempt = max(op.attempt, data["attempt"])
        op.started = True
        op.scheduled = False
        op.input = data.get("input", op.input)
        remote = data.get("remote")
        op.remote = op.remote or bool(remote)

    def _step_completed(self, data: dict[str, Any], seq: int, at: int) -> None:
        op = self._op(data, _STEP, seq, at)
        op.attempt = max(op.attempt, data["attempt"])
        op.ended, op.started, op.scheduled = True, False, False
        op.output = data.get("output")
        op.failure = None
        op.input = data.get("input", op.input)
        op.undo = bool(data.get("undo"))
        op.completed = True
        op.group = bool(data.get("group"))

    def _step_failed(self, data: dict[str, Any], seq: int, at: int) -> None:
        op = self._op(data, _STEP, seq, at)
        op.attempt = max(op.attempt, data["attempt"])
        op.ended, op.started = True, False
        op.failure = data["failure"]
        op.input = data.get("input", op.input)
        op.group = bool(data.get("group"))

    def _retry_scheduled(self, data: dict[str, Any], seq: int, at: int) -> None:
        op = self._op(data, _STEP, seq, at)
        op.ended, op.started = False, False
        op.scheduled = True
        op.due = data["due"]

    def _wait_started(self, data: dict[str, Any], seq: int, at: int) -> None:
        op = self._op(data, "wait", seq, at)
        op.opened = True
        op.due = data.get("due")

    def _input_requested(self, data: dict[str, Any], seq: int, at: int) -> None:
        self._op(data, "wait", seq, at)

    def _wait_resolved(self, data: dict[str, Any], seq: int, at: int) -> None:
        op = self._op(data, "wait", seq, at)
        op.ended = op.opened = True
        by = data["by"]
        op.found = "timer" if by == "timer" else self.mail.get(by["mail"])

    def _timer_set(self, data: dict[str, Any], seq: int, at: int) -> None:
        self._op(data, "sleep", seq, at).due = data["due"]

    def _timer_fired(self, data: dict[str, Any], seq: int, at: int) -> None:
        self._op(data, "sleep", seq, at).ended = True

    def _child_started(self, data: dict[str, Any], seq: int, at: int) -> None:
        op = self._op(data, "child", seq, at)
        op.child = data["run"]
        op.undo = bool(data.get("undo"))
        self.children[data["run"]] = op

    def _progress(self, data: dict[str, Any], seq: int, at: int) -> None:
        self._op(data, "progress", seq, at).ended = True

    def _attributes(self, data: dict[str, Any], seq: int, at: int) -> None:
        self._op(data, "attributes", seq, at).ended = True

    def _published(self, data: dict[str, Any], seq: int, at: int) -> None:
        self._op(data, "published", seq, at).ended = True

    def _answered(self, data: dict[str, Any], seq: int, at: int) -> None:
        self._op(data, "answered", seq, at).ended = True

    def _changed(self, data: dict[str, Any], seq: int, at: int) -> None:
        self.changes.add(data["path"])

    def _undo_started(self, data: dict[str, Any], seq: int, at: int) -> None:
        self.undoing.add(data["path"])
        if self.failure is None and data.get("failure") is not None:
            self.failure = data["failure"]

    def _undo_completed(self, data: dict[str, Any], seq: int, at: int) -> None:
        self.undone.add(data["path"])

    def _mail(self, kind: str, data: dict[str, Any], seq: int) -> None:
        self.mail[seq] = (kind, data)
        self.last_mail = max(self.last_mail, seq)

    def _signal(self, data: dict[str, Any], seq: int, at: int) -> None:
        self._mail("signal", data, seq)

    def _answer(self, data: dict[str, Any], seq: int, at: int) -> None:
        self._mail("answer", data, seq)

    def _child_completed(self, data: dict[str, Any], seq: int, at: int) -> None:
        self._mail("completed", data, seq)
        op = self.children.get(data["run"])
        if op is not None and op.undo:
            op.output, op.completed = data.get("output"), True
            op.last = max(op.last, seq)

    def _child_failed(self, data: dict[str, Any], seq: int, at: int) -> None:
        self._mail("failed", data, seq)

    def _cancel_requested(self, data: dict[str, Any], seq: int, at: int) -> None:
        self.cancel_requested = True
        self.paused = False

    def _paused(self, data: dict[str, Any], seq: int, at: int) -> None:
        self.paused = True

    def _resumed(self, data: dict[str, Any], seq: int, at: int) -> None:
        self.paused = False

    def _jump_requested(self, data: dict[str, Any], seq: int, at: int) -> None:
        self.jump = data if data.get("compensate") else None

    def _branch_opened(self, data: dict[str, Any], seq: int, at: int) -> None:
        self.jump = None

    def _withdrawn(self, data: dict[str, Any], seq: int, at: int) -> None:
        what = str(data.get("what", ""))
        if "cancel" in what:
            self.cancel_requested = False
        if "jump" in what:
            self.jump = None

    def _claimed(self, data: dict[str, Any], seq: int, at: int) -> None:
        self.claims = seq

    def after(self, path: str) -> int:
        """The first position of an operation, 0 if the log has none."""
        op = self.ops.get(path)
        return op.first if op else 0


_FOLDS: dict[str, Any] = {
    "step.started": History._step_started,
    "step.completed": History._step_completed,
    "step.failed": History._step_failed,
    "step.retry_scheduled": History._retry_scheduled,
    "wait.started": History._wait_started,
    "wait.resolved": History._wait_resolved,
    "input.requested": History._input_requested,
    "timer.set": History._timer_set,
    "timer.fired": History._timer_fired,
    "child.started": History._child_started,
    "progress.emitted": History._progress,
    "attributes.changed": History._attributes,
    "value.published": History._published,
    "request.answered": History._answered,
    "change.marked": History._changed,
    "compensation.started": History._undo_started,
    "compensation.completed": History._undo_completed,
    "signal.received": History._signal,
    "input.answered": History._answer,
    "child.completed": History._child_completed,
    "child.failed": History._child_failed,
    "run.cancel_requested": History._cancel_requested,
    "run.paused": History._paused,
    "run.resumed": History._resumed,
    "jump.requested": History._jump_requested,
    "branch.opened": History._branch_opened,
    "request.withdrawn": History._withdrawn,
    "run.claimed": History._claimed,
}
