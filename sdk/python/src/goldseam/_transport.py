"""Transports: requests to a server over HTTP, or to the engine in this process.

Both answer the same requests with the same documents. Blocking calls work in any thread; ``send`` works on an event loop.
"""

from __future__ import annotations

import json
from typing import Any, Iterator, Mapping, Protocol

from ._errors import CodecError, Problem


class Transport(Protocol):
    """Requests to an engine."""

    #: Whether the engine is in this process.
    embedded: bool

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, wait: float = 0.0
    ) -> Any:
        """Sends a request, waits for the response, and returns its document. Raises :class:`Problem`."""
        ...

    async def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, wait: float = 0.0
    ) -> Any:
        """The same, on the running event loop."""
        ...

    def begin(self, path: str, body: Any) -> Any:
        """Posts a document; returns the response if it is there without waiting, otherwise a future of it.

        Returns None if requests of this transport always wait.
        """
        ...

    def stream(self, path: str, last_event_id: str | None = None) -> "Stream":
        """Opens a stream of server-sent events."""
        ...

    def close(self, drain: float = 0.0) -> None:
        """Closes the transport."""
        ...


class Stream(Protocol):
    """A stream of bytes that another thread may close."""

    def pieces(self) -> Iterator[bytes]:
        """Iterates over the pieces; empty ones after a while without data."""
        ...

    def close(self) -> None:
        """Ends the stream."""
        ...


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def write(body: Any) -> bytes:
    """Writes a document as JSON."""
    try:
        return _encode(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        # A codec of the program returned it.
        raise CodecError(f"not a document of JSON: {error or type(error).__name__}") from None


def read(status: int, body: bytes) -> Any:
    """Reads a response; raises a problem."""
    document: Any
    try:
        document = json.loads(body)
    except ValueError:
        document = body[:500].decode("utf-8", "replace")
    if not 200 <= status < 300:
        raise Problem.of(status, document)
    if not isinstance(document, dict):
        raise Problem(
            f"the response is not a document of a Goldseam server: {document!r:.100}",
            status=502,
            hint="check that the URL is that of a Goldseam server",
        )
    return document
