"""Transports: requests to a server over HTTP, or to the engine in this process.

Both answer the same requests with the same documents. Blocking calls work in any thread; ``send`` works on an event loop.
"""

from __future__ import annotations

import asyncio
import atexit
import collections
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import ssl
import threading
import time
import urllib.parse
import weakref
from typing import Any, Callable, Generator, Iterator, Mapping, Protocol, TypeVar

from ._errors import Closed, CodecError, Error, Problem, Unreachable

T = TypeVar("T")

#: Reading the end of a long poll may take this much longer than the poll itself.
_SLACK = 15.0
_TIMEOUT = 60.0


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


# ---------------------------------------------------------------------------------------------------------- HTTP


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


class DaemonPool:
    """Threads that never keep the process alive, started when needed."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = max(1, limit)
        self._name = name
        self._waiting: collections.deque[Any] = collections.deque()
        self._lock = threading.Condition()
        self._threads = 0
        self._free = 0
        self._closed = False

    def submit(self, work: Any) -> concurrent.futures.Future[Any]:
        """Runs ``work`` in a thread."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._lock:
            if self._closed:
                raise Closed("the engine is closed")
            self._waiting.append((future, work))
            if self._free < len(self._waiting) and self._threads < self._limit:
                self._threads += 1
                name = f"{self._name}-{self._threads}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
            else:
                self._lock.notify()
        return future

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._free += 1
                while not self._waiting:
                    if self._closed or not self._lock.wait(60.0) and not self._waiting:
                        self._free -= 1
                        self._threads -= 1
                        return
                self._free -= 1
                future, work = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
                del error
            del future, work

    def close(self) -> None:
        """Lets idle threads end."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()


async def in_thread(work: Callable[[], T]) -> T:
    """Calls a function in a thread of its own: those of the loop may all be busy with code of the program."""
    pool = DaemonPool(1, "goldseam-once")
    try:
        found: T = await asyncio.wrap_future(pool.submit(work))
        return found
    finally:
        pool.close()


# ------------------------------------------------------------------------------------------------------ embedded


def native() -> Any:
    """Returns the native module."""
    try:
        from . import _native
    except ImportError as error:
        raise Error(
            f"this installation has no engine: {error}",
            code="GS0635",
            hint="install a wheel for this platform, or pass the http:// URL of a server",
        ) from None
    from . import __version__

    if _native.__version__ != __version__:
        raise Error(
            f"the native module is of version {_native.__version__}, the package of version {__version__}",
            code="GS0635",
            hint="install the package again: pip install --force-reinstall goldseam",
        )
    return _native


def _raised(error: RuntimeError) -> Exception:
    """Turns an error of the native module into a problem."""
    try:
        document = json.loads(str(error))
    except ValueError:
        return error
    if not isinstance(document, dict):
        return error
    problem = Problem.of(int(document.get("status", 0)), document)
    if problem.code in ("GS0630", "GS0631"):
        return Closed(problem.message, code=problem.code, hint=problem.hint)
    return problem


#: Engines of this process, for the end of the interpreter and for forks.
_open: "weakref.WeakSet[NativeTransport]" = weakref.WeakSet()


class NativeTransport:
    """Requests to the engine in this process."""

    embedded = True

    def __init__(
        self,
        url: str,
        settings: Mapping[str, str] | None = None,
        *,
        threads: int = 2,
        virtual_time: bool = False,
    ) -> None:
        refuse_second_sqlite(url)
        self.url = url
        self._pid = os.getpid()
        self._mailboxes: dict[int, _Mailbox] = {}
        self._lock = threading.Lock()
        #: Threads that wait inside of the engine.
        self._waiting = 0
        #: How far virtual time is ahead, in milliseconds.
        self.ahead_ms = 0
        try:
            self._engine = native().Engine.open(url, dict(settings or {}), threads, virtual_time)
        except RuntimeError as error:
            raise _raised(error) from None
        _open.add(self)

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, wait: float = 0.0
    ) -> Any:
        data = None if body is None else write(body)
        try:
            with self.inside():
                status, _, content = self._engine.request(method, path, list((headers or {}).items()), data)
        except RuntimeError as error:
            raise _raised(error) from None
        return read(status, content)

    @contextlib.contextmanager
    def inside(self) -> Generator[None, None, None]:
        """Counts a thread that waits inside of the engine."""
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    async def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, wait: float = 0.0
    ) -> Any:
        loop = asyncio.get_running_loop()
        mailbox = self._mailboxes.get(id(loop))
        if mailbox is None or mailbox.loop is not loop:
            mailbox = self._mailbox(loop)
        data = None if body is None else write(body)
        number, future = mailbox.expect()
        try:
            self._engine.submit(mailbox.native, number, method, path, list((headers or {}).items()), data)
        except RuntimeError as error:
            mailbox.forget(number)
            raise _raised(error) from None
        status, content = await future
        return read(status, content)

    def begin(self, path: str, body: Any) -> Any:
        loop = asyncio.get_running_loop()
        mailbox = self._mailboxes.get(id(loop))
        if mailbox is None or mailbox.loop is not loop:
            mailbox = self._mailbox(loop)
        number, future = mailbox.expect()
        try:
            reply = self._engine.begin(mailbox.native, number, "POST", path, write(body))
        except BaseException as error:
            mailbox.forget(number)
            if isinstance(error, RuntimeError):
                raise _raised(error) from None
            raise
        if reply is None:
            return future
        mailbox.forget(number)
        return read(*reply)

    def _mailbox(self, loop: asyncio.AbstractEventLoop) -> "_Mailbox":
        with self._lock:
            for known, mailbox in list(self._mailboxes.items()):
                if mailbox.loop.is_closed():
                    del self._mailboxes[known]
            mailbox = self._mailboxes[id(loop)] = _Mailbox(loop)
            return mailbox

    def stream(self, path: str, last_event_id: str | None = None) -> Stream:
        try:
            return _NativeStream(self, self._engine.stream(path, last_event_id))
        except RuntimeError as error:
            raise _raised(error) from None

    def advance(self, seconds: float) -> None:
        """Moves virtual time forward."""
        try:
            self._engine.advance(max(0, round(seconds * 1000)))
            self.ahead_ms += max(0, round(seconds * 1000))
        except RuntimeError as error:
            raise _raised(error) from None

    def crash_worker(self, worker: str) -> None:
        """Ends a worker like a crash of its process: nothing is released."""
        try:
            self._engine.crash_worker(worker)
        except RuntimeError as error:
            raise _raised(error) from None

    def close(self, drain: float = 0.0) -> None:
        _open.discard(self)
        self._engine.close(max(0, round(drain * 1000)))
        for mailbox in list(self._mailboxes.values()):
            mailbox.close()
        self._mailboxes.clear()

    def abandon(self) -> None:
        """Ends the engine like a crash."""
        _open.discard(self)
        self._engine.abandon()


class _Mailbox:
    """The responses for one event loop. The engine wakes the loop through a descriptor, never through the interpreter."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.native = native().Mailbox()
        self._numbers = itertools.count(1)
        self._futures: dict[int, asyncio.Future[tuple[int, bytes]]] = {}
        loop.add_reader(self.native.fileno(), self._drain)

    def expect(self) -> tuple[int, asyncio.Future[tuple[int, bytes]]]:
        number = next(self._numbers)
        future = self._futures[number] = self.loop.create_future()
        return number, future

    def forget(self, number: int) -> None:
        self._futures.pop(number, None)

    def _drain(self) -> None:
        for number, status, body in self.native.drain():
            future = self._futures.pop(number, None)
            if future is not None and not future.done():
                future.set_result((status, body))

    def close(self) -> None:
        if self.loop.is_closed():
            return

        def end() -> None:
            self.loop.remove_reader(self.native.fileno())
            for future in self._futures.values():
                if not future.done():
                    future.set_exception(Closed("the engine was closed"))
            self._futures.clear()

        try:
            self.loop.call_soon_threadsafe(end)
        except RuntimeError:
            pass  # closed meanwhile


class _NativeStream:
    def __init__(self, transport: NativeTransport, events: Any) -> None:
        self._transport = transport
        self._events = events
        self._closed = False

    def pieces(self) -> Iterator[bytes]:
        while not self._closed:
            with self._transport.inside():
                piece = self._events.next(1000)
            if piece is None:
                return
            yield piece

    def close(self) -> None:
        self._closed = True
        self._events.close()


def refuse_second_sqlite(url: str) -> None:
    """Refuses a database that another copy of SQLite in this process has open.

    POSIX drops all locks of a process on a file when the process closes any descriptor of it. Two copies of SQLite do
    not know of each other, so one would release the locks of the other.
    """
    if not url.startswith("sqlite:"):
        return
    path = _sqlite_path(url)
    if not os.path.isfile(path):
        _was_open.add(path)
        return
    if any(_sqlite_path(transport.url) == path for transport in list(_open)):
        return
    # An engine of this process that was just closed may still close its file.
    deadline = time.monotonic() + (5.0 if path in _was_open else 0.0)
    while _is_open_here(path):
        if time.monotonic() >= deadline:
            raise Error(
                f"this process has {path} open already, for example by the module sqlite3",
                code="GS0636",
                hint="close the other connection, or use it in another process; read runs through the client or goldseam",
            )
        time.sleep(0.005)
    _was_open.add(path)


#: The databases that engines of this process have opened.
_was_open: set[str] = set()


def _sqlite_path(url: str) -> str:
    return os.path.realpath(url[len("sqlite:") :].partition("?")[0]) if url.startswith("sqlite:") else ""


def _is_open_here(path: str) -> bool:
    """Whether this process has a descriptor of the file. False where that cannot be seen."""
    try:
        wanted = os.stat(path)
        names = os.listdir("/proc/self/fd")
    except OSError:
        return False
    for name in names:
        try:
            found = os.stat(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False


def _close_all() -> None:
    """Closes engines that the program left open, before the interpreter ends."""
    transports = list(_open)
    for transport in transports:
        transport.close(0.0)
    # A thread that returns from the engine while the interpreter ends would end inside of native code.
    deadline = time.monotonic() + 2.0
    while any(transport._waiting for transport in transports) and time.monotonic() < deadline:
        time.sleep(0.002)


atexit.register(_close_all)
