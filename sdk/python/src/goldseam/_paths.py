"""Paths: the identity of every operation of a run, assigned when the operation is called."""

from __future__ import annotations

import contextvars
import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ._errors import Misuse

if TYPE_CHECKING:
    from ._execution import Execution

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")


class Spot(NamedTuple):
    """The place of a call."""

    path: str
    ord: int
    arm: "Arm"


class Arm:
    """One sequence of operations: the workflow's function, or one of its parallel parts."""

    __slots__ = ("execution", "path", "ord", "counts", "tasks", "draws", "now", "changes")

    def __init__(self, execution: "Execution", path: str = "") -> None:
        self.execution = execution
        self.path = path
        self.ord = 0
        self.counts: dict[str, int] = {}
        self.tasks: dict[str, int] = {}
        self.draws = 0
        self.now = 0
        self.changes: dict[str, bool] = {}
        execution.arms[path] = self

    def spot(self, name: str, key: object = None) -> Spot:
        """Takes the place of a call."""
        segment = checked(name) if key is None else f"{checked(name)}:{checked(str(key))}"
        count = self.counts.get(segment, 0) + 1
        self.counts[segment] = count
        order = self.ord
        self.ord += 1
        if count > 1:
            segment = f"{segment}#{count}"
        return Spot(self.inside(segment), order, self)

    def inside(self, segment: str) -> str:
        """Returns the path of a segment of this arm."""
        return f"{self.path}/{segment}" if self.path else segment

    def part(self, name: str, key: object = None) -> "Arm":
        """Returns the arm of a parallel part; it takes a place like a call."""
        return Arm(self.execution, self.spot(name, key).path + "~")

    def task_arm(self, name: str) -> "Arm":
        """Returns the arm of a task created here. It takes no place: tasks of libraries move no operation."""
        segment = _FOREIGN.sub(".", name).strip(".")[-100:].lstrip("._-") or "task"
        count = self.tasks.get(segment, 0) + 1
        self.tasks[segment] = count
        return Arm(self.execution, self.inside(f"{segment}#{count}" if count > 1 else segment) + "~")

    def draw(self) -> bytes:
        """Returns random bytes that are the same in every replay."""
        self.draws += 1
        return digest("random", self.execution.run, self.path, str(self.draws))


def checked(name: str) -> str:
    """Refuses a name or key that is not an id."""
    if _ID.match(name) is None:
        raise Misuse(
            f"invalid name or key {name!r}",
            code="GS0101",
            hint="use 1 to 128 letters, digits, dots, underscores and hyphens, with a letter or digit first",
        )
    return name


def digest(*parts: str) -> bytes:
    """The hash of idempotency keys: 16 bytes of SHA-256 over the parts, each preceded by its length."""
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode()
        hashed.update(len(data).to_bytes(8, "big"))
        hashed.update(data)
    return hashed.digest()[:16]


def idempotency_key(run: str, generation: int, path: str) -> str:
    """The key of a step for other systems: the same for every attempt and every recovery."""
    return digest(run, f"b{generation}", path).hex()


def arm_of(path: str) -> str:
    """The arm of an operation's path."""
    return path.rpartition("/")[0]


#: The arm of the code that runs now; None outside of workflows and inside of steps.
current_arm: contextvars.ContextVar["Arm | None"] = contextvars.ContextVar("goldseam_arm", default=None)

#: The attempt at a step that runs now.
current_attempt: contextvars.ContextVar[Any] = contextvars.ContextVar("goldseam_attempt", default=None)
