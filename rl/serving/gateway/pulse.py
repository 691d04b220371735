"""Sees to it that llama.cpp processes which are asked something go on: one that stands still is ended and started again.

What holds one up, such as a grammar that it follows in too many ways, holds up all who ask it, and does not end when whoever
sent it goes away.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from threading import Thread
from typing import Final

from django.db import connections

from rl.serving import llama_server
from rl.serving.connections import own_connection
from rl.serving.gateway.turns import Turns
from rl.serving.llama_server_health import is_stuck
from rl.serving.upstreams import Upstream

LOOK_SECONDS: Final = 5.0
log = logging.getLogger(__name__)


class Pulse:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._looked_at: set[int] = set()
        """Deployments that a thread waits for. Nobody waits for the threads: at the end of the process they end."""
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look())

    async def stop(self) -> None:
        if self._looking:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for upstream in self._turns.busy():
                if upstream.server is not None and upstream.server not in self._looked_at:
                    self._looked_at.add(upstream.server)
                    Thread(target=self._revive, args=(upstream, upstream.server), daemon=True).start()

    def _revive(self, upstream: Upstream, number: int) -> None:
        try:
            if is_stuck(upstream):
                with own_connection():
                    llama_server.revive(number)
                connections.close_all()
        except Exception:
            log.exception("the server of deployment %s stands still and cannot be started anew", number)
        finally:
            self._looked_at.discard(number)
