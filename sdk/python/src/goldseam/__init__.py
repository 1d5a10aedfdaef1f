"""Goldseam: durable workflows that heal themselves.

The engine runs inside your process, on SQLite, Postgres, S3 or in memory, or your process is a worker of a server::

    import goldseam as gs

    @gs.step
    async def greet(name: str) -> str:
        return f"hello {name}"

    @gs.workflow
    async def hello(name: str) -> str:
        return await greet(name)

    async with gs.open("sqlite:hello.db", workflows=[hello]) as engine:
        run = await engine.start(hello, "Kyoto", id="hello-1")
        print(await run.result())
"""

import sys as _sys

_first = _sys.__dict__.setdefault("_goldseam_package", __file__)
if _first != __file__:
    # Steps of one copy would be plain calls in the workflows of the other.
    raise ImportError(f"two copies of goldseam in one process: {_first} and {__file__} (GS0637); remove one of them")

from ._blocking import BlockingEngine, BlockingRun
from ._children import ChildHandle, child, start_child
from ._client import Client, RunHandle
from ._codec import Codec, JsonCodec
from ._engine import Engine, Opening, explain, open
from ._errors import (
    Cancelled,
    ChildFailed,
    Closed,
    CodecError,
    Error,
    Failed,
    Misuse,
    Problem,
    Retryable,
    RunFailed,
    StepFailed,
    Terminal,
    Unknown,
    Unreachable,
    WaitTimeout,
    register_exception,
)
from ._operations import (
    Secret,
    arm,
    attempt,
    changed,
    continue_as_new,
    group,
    heartbeat,
    idempotency_key,
    in_workflow,
    is_replaying,
    now,
    progress,
    random,
    remote,
    remove_attribute,
    run_function,
    run_id,
    secret,
    set_attribute,
    tag,
    uuid,
    version,
)
from ._select import Selected, first, select
from ._options import Retry
from ._steps import Attempt, Done, NotDone, Step, step
from ._sweeper import Sweeper
from ._talk import IncomingRequest, Requests, TraceContext, publish, requests, signal_run, trace_context
from ._waits import ask, signal, sleep, sleep_until
from ._workflows import Workflow, workflow

__version__ = "0.1.0"

__all__ = [
    "Attempt", "BlockingEngine", "BlockingRun", "Cancelled", "ChildFailed", "ChildHandle", "Client", "Closed", "Codec",
    "CodecError", "Done", "Engine", "Error", "Failed", "IncomingRequest", "JsonCodec", "Misuse", "NotDone", "Opening", "Problem", "Requests",
    "Retry", "Retryable", "RunFailed", "RunHandle", "Secret", "Selected", "Step", "StepFailed", "Sweeper", "Terminal", "TraceContext", "Unknown",
    "Unreachable", "WaitTimeout", "Workflow", "arm", "ask", "attempt", "changed", "child", "continue_as_new", "explain",
    "first", "group", "heartbeat", "idempotency_key", "in_workflow", "is_replaying", "now", "open", "progress", "publish", "random",
    "register_exception", "remote", "remove_attribute", "requests", "run_function", "run_id", "secret", "select", "set_attribute",
    "signal", "signal_run", "sleep", "sleep_until", "start_child", "step", "tag", "trace_context", "uuid", "version", "workflow",
]  # fmt: skip
