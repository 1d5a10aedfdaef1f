"""Opening an engine: the store of a URL in this process, or a server."""

from __future__ import annotations

import asyncio
import signal
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping

from ._client import TERMINAL, Client
from ._codec import Codec, JsonCodec
from ._embedded import NativeTransport, native
from ._errors import Error, Misuse
from ._http import HttpTransport
from ._operations import Secret
from ._options import Span, seconds
from ._threads import in_thread
from ._transport import Transport
from ._verbs import Document
from ._worker import CLAIM, LOOK, Worker
from ._workflows import Workflow

if TYPE_CHECKING:
    from ._blocking import BlockingEngine


def connect(
    url: str,
    *,
    key: str | None = None,
    settings: Mapping[str, Any] | None = None,
    threads: int = 2,
    virtual_time: bool = False,
) -> Transport:
    """Returns the transport of a URL."""
    if not isinstance(url, str):
        raise Misuse(f"the URL of a store or server must be text, not {url!r}", code="GS0206")
    if url.startswith(("http://", "https://")):
        return HttpTransport(url, key)
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (settings or {}).items()}
    return NativeTransport(url, texts, threads=threads, virtual_time=virtual_time)


class Engine(Client):
    """An open engine: a client, and a worker if it has workflows. Use it as ``async with gs.open(...) as engine``."""

    def __init__(self, opening: "Opening", transport: Transport) -> None:
        super().__init__(transport, opening.codec)
        self._opening = opening
        self.worker: Worker | None = None
        self._closed = False

    async def _start(self) -> None:
        opening = self._opening
        if not opening.workflows:
            return
        self.worker = Worker(
            self.transport,
            opening.workflows,
            codec=opening.codec,
            name=opening.name,
            queues=opening.queues,
            slots=opening.slots,
            threads=opening.step_threads,
            lease=opening.lease,
            linger=opening.linger,
            secrets=opening.secrets,
        )
        await self.worker.start()

    async def poll(self, run: str, wait: float = 0.0) -> Document:
        worker = self.worker
        if worker is None or not self.transport.embedded or wait <= 0:
            return await super().poll(run, wait)
        deadline = time.monotonic() + wait
        while True:
            # Watched before the look, so that no end is missed.
            with worker.watchers.watch(run) as changed:
                found = await super().poll(run)
                left = deadline - time.monotonic()
                if found["status"] in TERMINAL or left <= 0:
                    return found
                # Other processes may end the run, too.
                await asyncio.wait([changed], timeout=min(left, LOOK if worker.executes(run) else CLAIM))
            if not worker.executes(run):
                return await super().poll(run, max(0.0, deadline - time.monotonic()))

    async def close(self, drain: Span | None = None) -> None:
        """Lets running steps end within ``drain`` seconds, releases all runs, and closes the engine."""
        if self._closed:
            return
        self._closed = True
        span = self._opening.drain if drain is None else seconds(drain)
        if self.worker is not None:
            await self.worker.stop(span)
        await in_thread(self.transport.close)

    async def serve(self, *, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        """Executes runs until the process gets SIGTERM or SIGINT, then closes the engine."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        handled = []
        for number in signals:
            try:
                loop.add_signal_handler(number, stop.set)
                handled.append(number)
            except (NotImplementedError, RuntimeError, ValueError):
                pass
        try:
            await stop.wait()
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
            await self.close()

    async def serve_tasks(self, handlers: Mapping[str, Callable[[Any], Any]], *, queue: str = "default", slots: int = 8) -> None:
        """Executes remote steps and tasks of a queue, by kind, until it is cancelled."""
        from ._tasks import serve_tasks

        await serve_tasks(self, handlers, queue, slots)


class Opening:
    """An engine to be opened: ``async with gs.open(...)``, ``with gs.open(...)``, or ``await gs.open(...)``."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        if isinstance(options["workflows"], Workflow):
            raise Misuse("workflows must be a list", hint=f"pass workflows=[{options['workflows'].name}]")
        self.workflows: list[Workflow[Any, Any]] = list(options["workflows"])
        self.codec: Codec = options["codec"] or JsonCodec()
        self.name: str | None = options["name"]
        self.queues: list[str] = list(options["queues"])
        self.slots: int = options["slots"]
        self.step_threads: int = options["step_threads"]
        self.lease: float | None = None if options["lease"] is None else seconds(options["lease"])
        self.linger: float = seconds(options["linger"])
        self.drain: float = seconds(options["drain"])
        self.secrets = {
            name: value if isinstance(value, Secret) else Secret(value) for name, value in (options["secrets"] or {}).items()
        }
        self._key: str | None = options["key"]
        self._settings: Mapping[str, Any] = options["settings"]
        self._threads: int = options["threads"]
        self._virtual_time: bool = options["virtual_time"]
        self._transport: Transport | None = options["transport"]
        self._engine: Engine | None = None
        self._blocking: BlockingEngine | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"the engine is not open yet, so it has no {name}: "
                "write `async with gs.open(...) as engine`, `with gs.open(...) as engine` or `engine = await gs.open(...)`"
            )

    def _connect(self) -> Transport:
        if self._transport is not None:
            return self._transport
        return connect(
            self.url, key=self._key, settings=self._settings, threads=self._threads, virtual_time=self._virtual_time
        )

    async def _open(self) -> Engine:
        transport = await in_thread(self._connect)
        engine = Engine(self, transport)
        try:
            await engine._start()
        except BaseException:
            transport.close()
            raise
        return engine

    def __await__(self) -> Any:
        return self._open().__await__()

    async def __aenter__(self) -> Engine:
        self._engine = await self._open()
        return self._engine

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._engine is not None:
            await self._engine.close()

    def __enter__(self) -> "BlockingEngine":
        from ._blocking import BlockingEngine

        self._blocking = BlockingEngine(self)
        return self._blocking

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._blocking is not None:
            self._blocking.close()


def open(
    url: str,
    *,
    workflows: Iterable[Workflow[Any, Any]] = (),
    key: str | None = None,
    codec: Codec | None = None,
    name: str | None = None,
    queues: Iterable[str] = (),
    slots: int = 256,
    step_threads: int = 32,
    lease: Span | None = None,
    linger: Span = 1.0,
    drain: Span = 10.0,
    secrets: Mapping[str, "str | Secret"] | None = None,
    settings: Mapping[str, Any] | None = None,
    threads: int = 2,
    virtual_time: bool = False,
    transport: Transport | None = None,
) -> Opening:
    """Opens an engine.

    ``url``: ``sqlite:PATH``, ``postgres://…``, ``s3://…`` or ``memory:`` opens the store in this process;
    ``http://…`` or ``https://…`` uses a server, with the API key ``key`` or ``GOLDSEAM_KEY``.

    ``workflows``: what this process executes; without any it is only a client. ``slots``: runs in memory at once.
    ``step_threads``: plain ``def`` steps at once. ``drain``: how long a close waits for running steps. ``settings``: settings
    of the engine by name, such as ``payload_bytes_max`` (only in this process).
    """
    return Opening(
        url, workflows=workflows, key=key, codec=codec, name=name, queues=queues, slots=slots, step_threads=step_threads,
        lease=lease, linger=linger, drain=drain, secrets=secrets, settings=settings or {}, threads=threads,
        virtual_time=virtual_time, transport=transport,
    )  # fmt: skip


def explain(code: str) -> str:
    """Returns the page of an error code or a rule: what happened, why, and what to do."""
    page: str | None = native().explain(code)
    if page is None:
        raise Error(f"there is no code {code!r}", code="GS0138", hint="codes look like GS0108, rules like A1")
    return page


__all__ = ["Document", "Engine", "Opening", "connect", "explain", "open"]
