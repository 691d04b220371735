"""Sees to it that each exchange is recorded once, however it ends."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any, Final

from rl.serving.gateway.answer_rows import Unanswered
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.writer import Writer

PATIENCE_SECONDS: Final = 1.0
"""A disk that takes longer holds no answer up; the file follows."""


class Recorder:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._open: set[asyncio.Task[Any]] = set()

    def watch(self) -> None:
        """The task that calls is streaming, and records its exchange at its end."""
        if task := asyncio.current_task():
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def settle(self) -> None:
        """Waits until all streams have ended; at a stop they were told to."""
        if self._open:
            await asyncio.wait(self._open, timeout=PATIENCE_SECONDS)

    async def begin(self, exchange: Exchange, piece: bytes) -> OSError | None:
        """Before a stream's first byte goes out it is in its file; otherwise, the error that prevented it."""
        return await _patiently(self._writer.begin(exchange.id, exchange.document(), piece))

    def add(self, exchange: Exchange, pieces: bytes) -> None:
        self._writer.add(exchange.id, pieces)

    def record(self, exchange: Exchange) -> Future[OSError | None] | None:
        """None where there is nothing to wait for: it is recorded already, or nothing was said. An exchange without a word
        is only counted as a failure of its arm, if its version is to blame."""
        if exchange.is_recorded:
            return None
        exchange.is_recorded = True
        if exchange.answer.says_something:
            return self._writer.keep(exchange.id, exchange.document())
        self._writer.drop(exchange.id)
        route = exchange.route
        if exchange.failed and route.experiment_id is not None and route.arm_id is not None:
            self._writer.count(Unanswered(route.experiment_id, route.arm_id, exchange.request.unit))
        return None

    async def record_and_wait(self, exchange: Exchange) -> OSError | None:
        """Nobody is given the end of an answer that is not in its file; returns the error that prevented it."""
        future = self.record(exchange)
        return await _patiently(future) if future else None


async def _patiently(future: Future[OSError | None]) -> OSError | None:
    waiting = asyncio.wrap_future(future)
    await asyncio.wait({waiting}, timeout=PATIENCE_SECONDS)
    return waiting.result() if waiting.done() else None
