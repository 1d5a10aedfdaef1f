"""Workers of remote steps: they claim tasks of a queue and bring the results."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
import os
import socket
from typing import TYPE_CHECKING, Any, Callable, Mapping

from ._errors import Error, Problem, failure_of, guarded
from ._paths import current_attempt
from ._steps import Attempt
from ._threads import DaemonPool

if TYPE_CHECKING:
    from ._client import Client

log = logging.getLogger("goldseam")


async def serve_tasks(client: "Client", handlers: Mapping[str, Callable[[Any], Any]], queue: str, slots: int) -> None:
    """Executes tasks of a queue by kind until it is cancelled."""
    owner = f"{socket.gethostname()}:{os.getpid()}"
    running: set[asyncio.Task[None]] = set()
    threads = DaemonPool(slots, "goldseam-task")
    try:
        while True:
            free = slots - len(running)
            if free <= 0:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                continue
            try:
                claimed = await client.claim_tasks(owner, queue=queue, limit=free, wait=10.0)
            except Error as error:
                log.warning("cannot claim tasks of queue %s: %s", queue, error)
                await asyncio.sleep(1.0)
                continue
            for item in claimed["items"]:
                task = asyncio.create_task(_execute(client, handlers, item, threads))
                running.add(task)
                task.add_done_callback(running.discard)
    finally:
        for task in running:
            task.cancel()
        threads.close()


async def _execute(
    client: "Client", handlers: Mapping[str, Callable[[Any], Any]], item: dict[str, Any], threads: DaemonPool
) -> None:
    task, token = item["task"], item["token"]
    beating = asyncio.create_task(_beat(client, task, token))
    try:
        handler = handlers.get(task["kind"])
        if handler is None:
            await client.release_task(task["id"], token)
            return
        about = task.get("step") or {}
        attempt = Attempt(about.get("attempt", 1), about.get("key", ""), task.get("run") or "", about.get("path", ""))
        attempt.last = item.get("last_heartbeat")
        attempt.trace = about.get("trace")
        current_attempt.set(attempt)
        try:
            if inspect.iscoroutinefunction(handler):
                result = await handler(task.get("payload"))
            else:
                body = functools.partial(contextvars.copy_context().run, guarded, functools.partial(handler, task.get("payload")))
                result = await asyncio.wrap_future(threads.submit(body))
        except Exception as error:
            await client.fail_task(task["id"], token, failure_of(error))
            return
        await client.complete_task(task["id"], token, result)
    except Problem as problem:
        log.info("dropped the work of task %s: %s", task["id"], problem)
    finally:
        beating.cancel()


async def _beat(client: "Client", task: dict[str, Any], token: str) -> None:
    pause = max(0.05, (task.get("silence_max") or 60_000) / 3000)
    while True:
        await asyncio.sleep(pause)
        try:
            await client.heartbeat_task(task["id"], token)
        except Problem:
            return
        except Error:
            pass
