"""The snapshot that requests are routed by, read again every two seconds in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from django.db import DatabaseError, connections

from rl.collect.feedback.kept_answers import Reader
from rl.serving.connections import own_connection
from rl.serving.gateway.routing import Snapshot
from rl.serving.gateway.snapshot import load

REFRESH_SECONDS: Final = 0.7
"""How late a revoked key, a new champion, a change of an experiment or a correction may be noticed."""
FRESH_SECONDS: Final = 0.2
"""From the beginning of a reading to the next, however many requests ask for what is unknown."""
PATIENCE_SECONDS: Final = 2.0
log = logging.getLogger(__name__)


class Table:
    """A database that is slow or locked leaves the last snapshot in use."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self._began_at = float("-inf")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gateway-table")
        self._reading: asyncio.Task[None] | None = None
        self._coming: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._is_stale = False
        self._reader = Reader()

    async def start(self) -> None:
        await self._read()
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        for task in filter(None, (self._keeping, self._coming)):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._thread.submit(connections.close_all)
        self._thread.shutdown(wait=False)

    async def fresh(self) -> Snapshot:
        """For what the snapshot does not know: it may have been made just now, and after a reading that is under way had
        begun. Waits for two seconds at most."""
        await asyncio.wait({self._next_reading()}, timeout=PATIENCE_SECONDS)
        return self.snapshot

    def _next_reading(self) -> asyncio.Task[None]:
        """It has not begun; all who ask until then share it."""
        if self._coming is None:
            self._coming = asyncio.create_task(self._read_after(self._reading))
        return self._coming

    async def _read_after(self, current: asyncio.Task[None] | None) -> None:
        if current:
            await asyncio.wait({current})
        await asyncio.sleep(self._began_at + FRESH_SECONDS - time.monotonic())
        self._reading, self._coming = self._coming, None
        await self._read()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            await asyncio.wait({self._next_reading()})

    async def _read(self) -> None:
        self._began_at = time.monotonic()
        try:
            self.snapshot = await asyncio.get_running_loop().run_in_executor(self._thread, _load, self._reader)
        except DatabaseError as error:
            if not self._is_stale:
                log.error("agents and deployments cannot be read, the last known ones are used: %s", error)
            self._is_stale = True
        else:
            self._is_stale = False


def _load(reader: Reader) -> Snapshot:
    with own_connection():
        return load(reader)
