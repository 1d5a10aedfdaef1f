"""Errors: what failed, why, and what to do. Each has a code; ``gs.explain(code)`` returns its page."""

from __future__ import annotations

import asyncio
import re
import traceback
from typing import Any, Callable, Mapping, TypeVar

T = TypeVar("T")

MESSAGE_BYTES_MAX = 4096


class Error(Exception):
    """Base class of all errors of this package."""

    code: str | None = None
    hint: str | None = None

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        text = self.message
        if self.code is not None:
            text += f" ({self.code})"
        if self.hint is not None:
            text += f"; {self.hint}"
        return text


class Problem(Error):
    """The engine or a server refused a request."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str | None = None,
        hint: str | None = None,
        document: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.status = status
        self.document: Mapping[str, Any] = document or {}

    @classmethod
    def of(cls, status: int, document: Any) -> Problem:
        """Reads a problem document."""
        if not isinstance(document, dict):
            return cls(f"HTTP {status}: {document!r}", status=status)
        return cls(
            str(document.get("detail") or document.get("title") or f"HTTP {status}"),
            status=status,
            code=document.get("code"),
            hint=document.get("hint"),
            document=document,
        )


class Unreachable(Error):
    """A server did not answer."""


class Closed(Error):
    """The engine is closed, or the process was forked."""

    code = "GS0631"


class Misuse(Error):
    """An operation was called in a place where it cannot work."""

    code = "GS0633"


class CodecError(Error):
    """A value cannot be written as JSON, or not be read back as its type."""

    code = "GS0634"


class Failed(Error):
    """A failure from a log: of a step, a run or a child."""

    def __init__(
        self,
        message: str,
        *,
        klass: str = "retryable",
        code: str | None = None,
        type_name: str | None = None,
        traceback_text: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        #: ``retryable``, ``terminal`` or ``unknown``.
        self.klass = klass
        #: The name of the exception's class, if the failure was an exception of Python.
        self.type_name = type_name
        #: The traceback of the original exception, as text.
        self.traceback_text = traceback_text

    @property
    def is_timeout(self) -> bool:
        """Whether a timeout ended the operation."""
        return self.code in ("timeout", "heartbeat-timeout")


class StepFailed(Failed):
    """A step failed for good. ``path`` names it."""

    path: str = ""


class RunFailed(Failed):
    """A run failed or was cancelled."""

    run: str = ""
    status: str = "failed"


class ChildFailed(RunFailed):
    """A child run failed or was cancelled."""


class WaitTimeout(Failed):
    """A wait, a question or a select had a timeout, and nothing arrived in time."""

    def __init__(self, message: str) -> None:
        super().__init__(message, klass="retryable", code="timeout")


class Retryable(Exception):
    """Raise it in a step: another attempt may succeed."""

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class Terminal(Exception):
    """Raise it in a step or a workflow: no further attempt can help."""

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class Unknown(Exception):
    """Raise it in a step: whether the effect happened is unknown."""

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class Cancelled(asyncio.CancelledError):
    """The run is being cancelled. Durable calls raise it; let it pass."""

    code = "cancelled"


class Evicted(BaseException):
    """Ends the code of a run that this process no longer has. Not an ``Exception``: handlers of users do not see it."""


class Exited(Exception):
    """Code of a user raised an exception that would end an event loop, or that a future cannot hold."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def guarded(function: Callable[[], T]) -> T:
    """Calls code of a user in a thread."""
    try:
        return function()
    except (StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        raise Exited(error) from None


class Diverged(BaseException):
    """The code does not fit the log."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Continuation(BaseException):
    """The run continues as new; see :func:`goldseam.continue_as_new`."""

    def __init__(self, value: Any) -> None:
        super().__init__("continue as new")
        self.value = value


_KLASSES: tuple[tuple[type[BaseException], str], ...] = (
    (Retryable, "retryable"),
    (Terminal, "terminal"),
    (Unknown, "unknown"),
)

#: The name of a class, also of one in a function.
_TYPE = re.compile(r"[\w.<>]+\Z")
#: Exceptions that come back as their own class: name to class.
_registered: dict[str, type[Exception]] = {}


def register_exception(klass: type[Exception]) -> type[Exception]:
    """Lets failures of this class come back as this class instead of :class:`StepFailed`.

    The class must accept one argument, the message. May be used as a decorator.
    """
    _registered[klass.__qualname__] = klass
    return klass


def _cut(text: str, limit: int) -> str:
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode("utf-8")
    return encoded[: limit - 3].decode("utf-8", "ignore") + "…"


def _shown(error: BaseException) -> str:
    """Returns the text of an exception, also if its ``__str__`` fails."""
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__name__} whose text cannot be shown>"


def failure_of(error: BaseException, *, with_traceback: bool = True) -> dict[str, Any]:
    """Returns an exception as the log stores it: class, message, code."""
    if isinstance(error, Exited):
        error = error.error
    if isinstance(error, Failed):
        found: dict[str, Any] = {"class": error.klass, "message": _cut(error.message, MESSAGE_BYTES_MAX)}
        if error.code is not None:
            found["code"] = str(error.code)
        return found
    klass = next((name for kind, name in _KLASSES if isinstance(error, kind)), None)
    code = getattr(error, "code", None)
    if klass is not None:
        message = _cut(_shown(error) or type(error).__name__, MESSAGE_BYTES_MAX)
        return {"class": klass, "message": message, **({"code": code} if isinstance(code, str) else {})}
    if isinstance(error, asyncio.CancelledError):
        return {"class": "terminal", "message": "the run was cancelled", "code": "cancelled"}
    message = f"{type(error).__qualname__}: {_shown(error)}"
    if with_traceback and error.__traceback__ is not None:
        try:
            frames = "".join(traceback.format_tb(error.__traceback__)[-8:])
        except Exception:
            frames = ""
        head = _cut(message, MESSAGE_BYTES_MAX // 2)
        message = f"{head}\n\nTraceback (most recent call last):\n{frames}" if frames else head
    return {
        "class": "retryable",
        "message": _cut(message, MESSAGE_BYTES_MAX),
        **({"code": code} if isinstance(code, str) and 0 < len(code) <= 64 else {}),
    }


def exception_of(failure: Mapping[str, Any], kind: type[Failed] = StepFailed) -> Exception:
    """Rebuilds an exception from a failure of the log."""
    text = str(failure.get("message", ""))
    head, _, frames = text.partition("\n\nTraceback (most recent call last):\n")
    name, separator, rest = head.partition(": ")
    type_name = name if separator and _TYPE.match(name) else None
    if type_name is not None and kind is StepFailed:
        registered = _registered.get(type_name)
        if registered is not None:
            try:
                return registered(rest)
            except Exception:
                pass
    made = kind.__new__(kind)
    Failed.__init__(
        made,
        head,
        klass=str(failure.get("class", "retryable")),
        code=failure.get("code"),
        type_name=type_name,
        traceback_text=frames or None,
    )
    return made
