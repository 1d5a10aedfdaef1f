"""The transport to a server: HTTP over kept connections, in threads."""

from __future__ import annotations

import asyncio
import collections
import http.client
import os
import ssl
import urllib.parse
from typing import Any, Iterator, Mapping

from ._errors import Closed, Error, Unreachable
from ._threads import DaemonPool
from ._transport import Stream, read, write

#: Reading the end of a long poll may take this much longer than the poll itself.
_SLACK = 15.0
_TIMEOUT = 60.0


class HttpTransport:
    """Requests to a server. Connections are kept and used by one request at a time."""

    embedded = False

    def __init__(self, url: str, key: str | None = None, *, threads: int = 16) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Error(f"invalid server URL {url!r}", code="GS0206", hint="expected http://HOST:PORT or https://HOST")
        self._https = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._https else 80)
        self._prefix = parts.path.rstrip("/")
        self._key = key or os.environ.get("GOLDSEAM_KEY") or None
        self._tls = ssl.create_default_context() if self._https else None
        self._idle: collections.deque[http.client.HTTPConnection] = collections.deque(maxlen=64)
        self._threads = threads
        self._pool = self._new_pool()
        self._pid = os.getpid()
        self._closed = False

    def _new_pool(self) -> "DaemonPool":
        return DaemonPool(self._threads, "goldseam-http")

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)

    def _check(self) -> None:
        if self._closed:
            raise Closed("the engine is closed")
        if self._pid != os.getpid():
            # A forked child must not share sockets with its parent, and has none of its threads.
            self._idle = collections.deque(maxlen=64)
            self._pool = self._new_pool()
            self._pid = os.getpid()

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, wait: float = 0.0
    ) -> Any:
        self._check()
        data = None if body is None else write(body)
        sent = {"accept": "application/json", **(headers or {})}
        if data is not None:
            sent["content-type"] = "application/json"
        if self._key:
            sent["authorization"] = f"Bearer {self._key}"
        timeout = (wait + _SLACK) if wait else _TIMEOUT
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect(timeout)
            fresh = True
        else:
            fresh = False
        while True:
            try:
                if connection.sock is not None:
                    connection.sock.settimeout(timeout)
                else:
                    connection.timeout = timeout
                connection.request(method, self._prefix + path, body=data, headers=sent)
                response = connection.getresponse()
                content = response.read()
                break
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # The server may have closed a kept connection before it read the request.
                gone = isinstance(error, (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError))
                if not fresh and gone and not self._closed:
                    connection, fresh = self._connect(timeout), True
                    continue
                raise Unreachable(
                    f"no response from {self._host}:{self._port}: {error or type(error).__name__}",
                    hint="check that the server runs and that the URL is right",
                ) from error
        if response.will_close or self._closed:
            connection.close()
        else:
            self._idle.append(connection)
        return read(response.status, content)

    async def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, wait: float = 0.0
    ) -> Any:
        self._check()
        future = self._pool.submit(lambda: self.request(method, path, body, headers, wait))
        return await asyncio.wrap_future(future)

    def begin(self, path: str, body: Any) -> Any:
        return None

    def stream(self, path: str, last_event_id: str | None = None) -> Stream:
        self._check()
        connection = self._connect(30.0)
        headers = {"accept": "text/event-stream"}
        if last_event_id:
            headers["last-event-id"] = last_event_id
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        try:
            connection.request("GET", self._prefix + path, headers=headers)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(f"no response from {self._host}:{self._port}: {error}") from error
        if response.status not in (200, 204):
            content = response.read()
            connection.close()
            read(response.status, content)
        return _HttpStream(connection, response)

    def close(self, drain: float = 0.0) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        self._pool.close()


class _HttpStream:
    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response

    def pieces(self) -> Iterator[bytes]:
        try:
            while True:
                piece = self._response.read1(65536)
                if not piece:
                    return
                yield piece
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            return

    def close(self) -> None:
        sock = self._connection.sock
        if sock is not None:
            try:
                sock.shutdown(2)
            except OSError:
                pass
        self._connection.close()
