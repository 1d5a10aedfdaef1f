"""The transport to the engine in this process."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import json
import os
import threading
import time
import weakref
from typing import Any, Generator, Iterator, Mapping

from ._errors import Closed, Error, Problem
from ._transport import Stream, read, write


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
        number = mailbox.number()
        try:
            reply = self._engine.begin(mailbox.native, number, "POST", path, write(body))
        except RuntimeError as error:
            raise _raised(error) from None
        if reply is None:
            # The response arrives on this loop, so not before this function returns.
            return mailbox.future(number)
        status, content = reply
        return _parse(content.decode())[0] if status == 200 else read(status, content)

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


#: Reads a document that the engine wrote: without blanks around it.
_parse = json.JSONDecoder().raw_decode


class _Mailbox:
    """The responses for one event loop. The engine wakes the loop through a descriptor, never through the interpreter."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.native = native().Mailbox()
        self._numbers = itertools.count(1)
        self._futures: dict[int, asyncio.Future[tuple[int, bytes]]] = {}
        loop.add_reader(self.native.fileno(), self._drain)

    def number(self) -> int:
        """The number of the next request."""
        return next(self._numbers)

    def future(self, number: int) -> asyncio.Future[tuple[int, bytes]]:
        """The response to a request."""
        future = self._futures[number] = self.loop.create_future()
        return future

    def expect(self) -> tuple[int, asyncio.Future[tuple[int, bytes]]]:
        number = self.number()
        return number, self.future(number)

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
