"""Who is answered next: a server gives as many answers at once as it has slots, and no caller takes all from the others.

How many a caller has under way in all processes of the site together is told by the locks of files, which the operating
system lets go of when their holder dies. A llama.cpp process that is asked something and stands still is ended and started
again: what holds one up, such as a grammar that it follows in too many ways, holds up all who ask it, whoever sent it.
"""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from hashlib import sha256
from threading import Thread
from typing import IO, Final

from django.conf import settings
from django.db import connections

from rl.base.background import end_all
from rl.base.locks import try_lock
from rl.serving import llama_server
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.refusals import Refusal, too_slow
from rl.serving.gateway.table import own_connection
from rl.serving.llama_server_process import is_stuck
from rl.serving.upstreams import Upstream

KEPT_SECONDS: Final = 60.0
"""How long a slot is kept for whoever asked."""
LOOK_SECONDS: Final = 0.02
"""Between two looks whether another process has ended an answer of the caller."""
MOST_WAITING: Final = 64
"""Requests of one caller that wait for one server."""
MOST_WAITING_OF_ALL: Final = 512
BUSY_SECONDS: Final = 5
"""What Retry-After says."""
PULSE_SECONDS: Final = 5.0
log = logging.getLogger(__name__)


class Shares:
    def __init__(self, server: Hashable) -> None:
        self._folder = settings.DATA_DIR / "shares" / _digest(server)
        self._folder.mkdir(parents=True, exist_ok=True)

    def take(self, caller: Hashable, slots: int) -> IO[bytes] | None:
        """What is closed when the answer ends; None while the caller has all that he may have: every slot where nobody else
        asked lately, else all but one."""
        mine = _digest(caller)
        since = time.time() - KEPT_SECONDS
        others = (path for path in self._folder.glob("*-0") if path.name != f"{mine}-0")
        most = max(1, slots - 1) if any(path.stat().st_mtime > since for path in others) else slots
        for number in range(most):
            file = (self._folder / f"{mine}-{number}").open("wb")
            if number == 0:
                os.utime(file.fileno())
            if try_lock(file.fileno()):
                return file
            file.close()
        return None


def _digest(value: Hashable) -> str:
    return sha256(repr(value).encode()).hexdigest()[:16]


class Turns:
    """Those of one process: each counts for itself, but for the shares of callers."""

    def __init__(self) -> None:
        self._servers: dict[Hashable, _Server] = {}

    @asynccontextmanager
    async def of(self, exchange: Exchange) -> AsyncIterator[None]:
        """One answer of the server that the exchange is routed to, within GATEWAY_TIMEOUT. Raises Refusal."""
        await self.take(exchange)
        try:
            async with asyncio.timeout(settings.GATEWAY_TIMEOUT):
                yield
        except TimeoutError:
            raise too_slow(exchange.route.served.version) from None
        finally:
            self.leave(exchange)

    async def take(self, exchange: Exchange) -> None:
        """Whoever has taken a turn leaves it. Raises Refusal where too many wait, or it does not come in GATEWAY_TIMEOUT."""
        upstream = exchange.route.upstream
        server = self._servers.setdefault(_name(upstream), _Server(upstream))
        server.upstream = upstream
        try:
            async with asyncio.timeout(settings.GATEWAY_TIMEOUT):
                await server.take(exchange.key.caller)
        except TimeoutError:
            raise _too_many("no turn came in time: too many requests wait for this model") from None

    def leave(self, exchange: Exchange) -> None:
        self._servers[_name(exchange.route.upstream)].leave(exchange.key.caller)

    def busy(self) -> list[Upstream]:
        """The servers that are answering."""
        return [server.upstream for server in self._servers.values() if server.running]


def _name(upstream: Upstream) -> Hashable:
    """A process of ours may come back at another port."""
    return upstream.server or (upstream.base_url, upstream.model)


def _too_many(message: str, status: int = 503) -> Refusal:
    return Refusal(status, message, code="model_busy", headers={"Retry-After": str(BUSY_SECONDS)})


class _Server:
    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.running: dict[Hashable, list[IO[bytes]]] = {}
        """By caller, for each answer under way, what holds its share."""
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._seen: dict[Hashable, float] = {}
        self._called: dict[Hashable, int] = {}
        """When, counted in calls."""
        self._shares = Shares(_name(upstream))
        self._look: asyncio.TimerHandle | None = None

    async def take(self, caller: Hashable) -> None:
        now = time.monotonic()
        self._seen = {who: at for who, at in self._seen.items() if now - at < KEPT_SECONDS} | {caller: now}
        self._called = {who: at for who, at in self._called.items() if who in self._seen}
        turn = asyncio.get_running_loop().create_future()
        if len(self._waiting.get(caller, ())) >= MOST_WAITING:
            raise _too_many(f"{MOST_WAITING} requests of yours wait for this model already", 429)
        if sum(map(len, self._waiting.values())) >= MOST_WAITING_OF_ALL:
            raise _too_many("too many requests wait for this model")
        self._waiting.setdefault(caller, deque()).append(turn)
        self._call()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(caller, turn)
            else:  # called at the very moment when it went away
                self.leave(caller)
            raise

    def leave(self, caller: Hashable) -> None:
        self.running[caller].pop().close()
        if not self.running[caller]:
            del self.running[caller]
        self._call()

    def _forget(self, caller: Hashable, turn: asyncio.Future[None]) -> None:
        if turn in (queue := self._waiting.get(caller, deque())):
            queue.remove(turn)
        if caller in self._waiting and not queue:
            del self._waiting[caller]

    def _call(self) -> None:
        """While there are slots: whoever has the fewest answers under way, and of those whoever was called longest ago."""
        held_up: set[Hashable] = set()
        while callers := [caller for caller in self._waiting if caller not in held_up and self._may_run(caller)]:
            caller = min(callers, key=lambda who: (len(self.running.get(who, ())), self._called.get(who, -1)))
            if (share := self._shares.take(caller, self.upstream.slots)) is None:
                held_up.add(caller)
                continue
            turn = self._waiting[caller].popleft()
            self._forget(caller, turn)
            if turn.done():
                share.close()
                continue
            self.running.setdefault(caller, []).append(share)
            self._called[caller] = max(self._called.values(), default=0) + 1
            turn.set_result(None)
        if held_up:
            # another process does not tell when it has ended an answer
            if self._look:
                self._look.cancel()
            self._look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._call)

    def _may_run(self, caller: Hashable) -> bool:
        """One slot is kept for whoever asked lately and has nothing under way, where there are several."""
        free = self.upstream.slots - sum(map(len, self.running.values()))
        is_kept = (
            self.upstream.slots > 1 and caller in self.running and self._seen.keys() - self.running.keys() - {caller}
        )
        return free > (1 if is_kept else 0)


class Pulse:
    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._looked_at: set[int] = set()
        """Deployments that a thread waits for. Nobody waits for the threads: at the end of the process they end."""
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look())

    async def stop(self) -> None:
        await end_all([self._looking])

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(PULSE_SECONDS)
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
