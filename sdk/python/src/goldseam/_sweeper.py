"""A sweeper as a library: finds stalled runs and heals them, or only reports them."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import Any, AsyncIterator

from ._client import Client
from ._errors import Error
from ._options import Span, seconds
from ._verbs import Document

log = logging.getLogger("goldseam")


@dataclasses.dataclass
class Sweeper:
    """Sweeps a store again and again.

    ``report_only``: finds stalled runs and changes nothing. ``stale_after``: how long a finding must hold before it is healed.

    ::

        async with gs.open("postgres://…") as client:
            async for sweep in gs.Sweeper(client, every=30).sweeps():
                print(sweep["scanned"], sweep["healed"], sweep["stalled"])
    """

    client: Client
    every: Span = 60.0
    report_only: bool = False
    stale_after: Span | None = None

    async def once(self) -> Document:
        """Makes one sweep, and returns what it found and healed."""
        return await self.client.sweep(dry_run=self.report_only, stale_after=self.stale_after, from_log=True)

    async def sweeps(self) -> AsyncIterator[Document]:
        """Sweeps until the iteration ends. A store that does not answer is tried again."""
        while True:
            try:
                yield await self.once()
            except Error as error:
                log.warning("sweep failed: %s", error)
            await asyncio.sleep(seconds(self.every))

    async def run(self) -> Any:
        """Sweeps until it is cancelled."""
        async for sweep in self.sweeps():
            if sweep["healed"]:
                log.info("sweep healed %s of %s runs", sweep["healed"], sweep["scanned"])
