"""Everything that ``serve`` serves: health, the gateway, and the site."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

from rl.faults import fault_of
from rl.serving.gateway.app import application as gateway
from rl.serving.gateway.streaming import unless_gone
from rl.serving.gateway.table import own_connection
from rl.web.front import health
from rl.web.front.answers import Answer, send_answer
from rl.web.front.bodies import collect, replay
from rl.web.front.bridge import RETRY_SECONDS, Bridge
from rl.web.front.gateway import as_gateway_answer, is_for_gateway
from rl.web.front.hosts import require_known_host
from rl.web.front.limits import Limits, address_of
from rl.web.front.master import end_with_master
from rl.web.front.memory import Memory
from rl.web.front.observing import observe
from rl.web.front.refusals import ClientLeft, Refused
from rl.web.front.waiting import EndsOfRuns, Later
from rl.web.readiness import problem

OTLP_PATHS: Final = ("/v1/traces", "/v1/traces/")
log = logging.getLogger(__name__)


class Front:
    """The ASGI application. One for each process: threads, and what is known, are shared by its requests."""

    def __init__(self, django: WSGIHandler) -> None:
        self._limits, self._memory = Limits(), Memory()
        self._site = Bridge(django)
        self._health = health.Health(problem, self._site.has_turn)
        self._ends = EndsOfRuns()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            end_with_master()
            await gateway(scope, receive, send)
            self._health.stop()
            self._ends.stop()
            self._site.stop()
            return
        with suppress(ClientLeft), observe(scope, send) as observed_send:
            await self._answer(scope, receive, observed_send)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        path, address = scope["path"], address_of(scope)
        if path in health.PATHS:
            await send_answer(send, await self._health.answer(scope["method"], path))
            return
        try:
            self._limits.admit(scope, address)
            if not is_for_gateway(path):
                require_known_host(scope)
            with self._memory.share(address) as take:
                body = await collect(scope, receive, _most_bytes(path), take)
                if is_for_gateway(path):
                    await gateway(scope, replay(body, receive), self._noting_send(scope, address, send))
                    return
                answer = await self._of_site(scope, receive, body)
                if asked := answer.question:
                    noting = self._noting_send(scope, address, send)
                    await gateway(asked.scope(scope), replay(asked.body, receive), noting)
                    return
        except Refused as refused:
            answer = as_gateway_answer(refused) if is_for_gateway(path) else refused.answer()
        self._limits.note(scope, address, answer.status, answer.headers)
        await send_answer(send, answer)

    def _noting_send(self, scope: Any, address: str, send: Any) -> Any:
        async def pass_on(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._limits.note(scope, address, message["status"], message["headers"])
            await send(message)

        return pass_on

    async def _of_site(self, scope: Any, receive: Any, body: bytes) -> Answer:
        """Raises Refused, for a full disk and at a stop too, and ClientLeft."""
        try:
            answer = await self._site.answer(scope, receive, body)
            return await self._when_ended(receive, answer, answer.later) if answer.later else answer
        except asyncio.CancelledError as stopped:  # the server stops, and its patience is over
            detail = "the server is stopping; whether this was done is not known: send it again"
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "stopping", detail, retry_seconds=RETRY_SECONDS) from stopped
        except Exception as error:
            fault = fault_of(error)
            if fault is None:
                raise
            log.error("%s %s: %s", scope["method"], scope["path"], error)
            raise Refused(fault.status, fault.code, fault.detail, retry_seconds=fault.retry_seconds) from error

    async def _when_ended(self, receive: Any, answer: Answer, later: Later) -> Answer:
        """Raises ClientLeft."""
        try:
            if await unless_gone(receive, self._ends.wait(later.run)) is None:
                raise ClientLeft
        except asyncio.CancelledError:  # the server stops: as things are
            return answer
        return answer.with_body(*await self._site.in_thread(receive, _render_now, later))


def _render_now(later: Later) -> tuple[int, bytes]:
    with own_connection():
        return later.render()


def _most_bytes(path: str) -> int:
    most: int = settings.MAX_OTLP_REQUEST_BYTES if path in OTLP_PATHS else settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return most
