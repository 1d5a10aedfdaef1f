"""Options of steps: durations, retry policies, limits."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
from typing import Any, Union

from ._errors import Misuse

#: A duration: seconds, or a timedelta.
Span = Union[float, int, dt.timedelta]


def seconds(span: Span) -> float:
    """Returns a duration in seconds."""
    return span.total_seconds() if isinstance(span, dt.timedelta) else float(span)


def millis(span: Span) -> int:
    """Returns a duration in milliseconds."""
    value = round(seconds(span) * 1000)
    if value < 0:
        raise Misuse(f"a duration must not be negative: {span}", code="GS0138")
    return value


@dataclasses.dataclass(frozen=True)
class Retry:
    """A retry policy. The engine decides when the next attempt begins, by the clock of the store."""

    #: Attempts in total.
    attempts: int = 1
    #: The pause after the first attempt.
    initial: Span = 1.0
    #: Each pause is this much longer than the one before.
    factor: float = 2.0
    #: The longest pause.
    pause_max: Span = 60.0
    #: The part of the pause that is random, from 0 to 1.
    jitter: float = 0.2

    @classmethod
    def never(cls) -> Retry:
        """One attempt only."""
        return cls()

    @classmethod
    def fixed(cls, pause: Span, attempts: int = 2**31) -> Retry:
        """Pauses of the same length."""
        return cls(attempts=attempts, initial=pause, factor=1.0, pause_max=pause, jitter=0.0)

    def document(self) -> dict[str, Any] | None:
        """The policy as the protocol has it; None if there is one attempt only."""
        if self.attempts <= 1:
            return None
        return {
            "attempts_max": min(self.attempts, 2**32 - 1),
            "initial_ms": millis(self.initial),
            "factor_permille": round(self.factor * 1000),
            "pause_max_ms": millis(self.pause_max),
            "jitter_permille": round(self.jitter * 1000),
        }

    def pause(self, attempt: int) -> float:
        """The pause after an attempt at a compensation, in seconds."""
        pause = min(seconds(self.initial) * self.factor ** (attempt - 1), seconds(self.pause_max))
        return pause * (1 - self.jitter * random.random())


def policy_of(retry: Retry | int | None) -> Retry:
    """Reads a retry policy as users write it."""
    policy = Retry(attempts=retry) if isinstance(retry, int) else retry
    if policy is None:
        return Retry()
    if not isinstance(policy, Retry) or policy.attempts < 1:
        raise Misuse(f"invalid retry {retry!r}", code="GS0138", hint="pass a number of attempts from 1, or gs.Retry(attempts=5)")
    return policy


def positive(name: str, span: Span) -> float:
    """Reads a limit as users write it, in seconds."""
    if not isinstance(span, (int, float, dt.timedelta)) or seconds(span) <= 0:
        raise Misuse(f"invalid {name} {span!r}", code="GS0138", hint="pass seconds as a number above 0, or a timedelta")
    return seconds(span)


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """The options of a step."""

    retry: Retry = Retry()
    timeout: float | None = None
    heartbeat_timeout: float | None = None
    at_most_once: bool = False
    depends: bool = False

    @classmethod
    def of(
        cls,
        retry: Retry | int | None,
        timeout: Span | None,
        heartbeat_timeout: Span | None,
        at_most_once: bool,
        depends: bool,
    ) -> StepOptions:
        """Reads options as users write them."""
        policy = policy_of(retry)
        for name, span in (("timeout", timeout), ("heartbeat_timeout", heartbeat_timeout)):
            if span is not None:
                positive(name, span)
        return cls(
            policy,
            None if timeout is None else seconds(timeout),
            None if heartbeat_timeout is None else seconds(heartbeat_timeout),
            at_most_once,
            depends,
        )
