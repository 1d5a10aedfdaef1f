"""Following a log: a thread reads a stream of server-sent events, and reconnects where it broke."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from ._errors import Closed, Error, Unreachable
from ._transport import Transport

_TERMINAL = ("completed", "failed", "cancelled")


def follow(
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
