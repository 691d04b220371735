"""Everything that ``serve`` serves: health, the gateway, and the site. Every request has a number, and is counted and timed,
whoever answers it; workers end with the process that started them, however that one ended."""

import asyncio
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from multiprocessing.connection import wait
from tempfile import SpooledTemporaryFile
from threading import Thread
from typing import IO, Any, Final, cast

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from prometheus_client import Counter, Histogram

from rl.base import logs
from rl.faults import fault_of
from rl.serving.dialects.known import dialect_at
from rl.serving.gateway.app import application as gateway
from rl.serving.gateway.gateway import ADDRESS
from rl.serving.gateway.packed_body import HOLD
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.streaming import unless_gone
from rl.serving.gateway.table import own_connection
from rl.web.front import health
from rl.web.front.answers import ClientLeft, EndsOfRuns, HttpAnswer, Later, RequestRefused, send_answer
from rl.web.front.bridge import RETRY_SECONDS, Bridge, collect, collect_by, replay
from rl.web.front.following import FULL, Followers
from rl.web.front.health import problem
from rl.web.front.limits import Memory, RequestLimits, address_of, require_known_host
from rl.web.front.uploads import IN_MEMORY, keep_in, largest_body, may_send

log = logging.getLogger(__name__)


class Front:
    """The ASGI application. One for each process: threads, and what is known, are shared by its requests."""

    def __init__(self, django: WSGIHandler) -> None:
        self._limits, self._memory = RequestLimits(), Memory()
        self._site = Bridge(django)
        self._health = health.Health(problem, self._site.has_turn)
        self._ends, self._followers = EndsOfRuns(), Followers()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            master = multiprocessing.parent_process()
            if master is not None:
                Thread(target=_end_after, args=(master.sentinel,), name="master", daemon=True).start()
            await gateway(scope, receive, send)
            await self._health.stop()
            await self._ends.stop()
            self._followers.stop()
            self._site.stop()
            return
        scope = below_site(scope)
        with suppress(ClientLeft), observe(scope, send) as observed_send:
            await self._answer(scope, receive, observed_send)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        path, address = scope["path"], address_of(scope)
        if path in health.PATHS:
            await send_answer(send, await self._health.answer(scope["method"], path))
            return
        try:
            self._limits.admit(scope, address)
            if not is_for_gateway(scope):
                require_known_host(scope)
            with self._memory.share(address) as take:
                if most := largest_body(scope):
                    answer = await self._of_site_with_file(scope, receive, take, most)
                elif (own := await self._of_gateway_or_site(scope, receive, send, take)) is None:
                    return
                else:
                    answer = own
        except RequestRefused as refused:
            answer = as_gateway_answer(refused, path) if speaks_openai(path) else refused.answer()
        self._limits.note(scope, address, answer.status, answer.headers)
        await send_answer(send, answer)

    async def _of_gateway_or_site(self, scope: Any, receive: Any, send: Any, take: Any) -> HttpAnswer | None:
        """None where the gateway has answered, or events were sent. Raises as ``_of_site``."""
        path, noting = scope["path"], self._noting_send(scope, address_of(scope), send)
        is_otlp = f"{path}/".startswith(SPANS)
        most = settings.MAX_OTLP_REQUEST_BYTES if is_otlp else settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = await collect(scope, receive, most, take)
        if is_for_gateway(scope):
            await gateway({**scope, HOLD: _refusing(take), ADDRESS: address_of(scope)}, replay(body, receive), noting)
            return None
        answer = await self._of_site(scope, receive, body)
        if answer.following:
            if self._followers.is_full:
                raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "busy", FULL, retry_seconds=RETRY_SECONDS)
            await self._followers.follow(receive, noting, answer.headers, cast("bytes", answer.body), answer.following)
            return None
        if asked := answer.question:
            await gateway(asked.scope(scope), replay(asked.body, receive), noting)
            return None
        return answer

    def _noting_send(self, scope: Any, address: str, send: Any) -> Any:
        async def pass_on(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._limits.note(scope, address, message["status"], message["headers"])
            await send(message)

        return pass_on

    async def _of_site_with_file(self, scope: Any, receive: Any, take: Any, most: int) -> HttpAnswer:
        """What nobody may send is not kept: the site says why. Raises as ``_of_site``."""
        with refusing_faults(scope):
            if not await self._site.in_thread(_stay, own_connection()(may_send), scope):
                return await self._of_site(scope, receive, b"")
            with SpooledTemporaryFile(IN_MEMORY, dir=str(settings.DATA_DIR)) as spooled:
                body = cast("IO[bytes]", spooled)
                await collect_by(keep_in(body, take), scope, receive, most)
                return await self._of_site(scope, receive, body)

    async def _of_site(self, scope: Any, receive: Any, body: bytes | IO[bytes]) -> HttpAnswer:
        """Raises RequestRefused, for a full disk and at a stop too, and ClientLeft."""
        try:
            with refusing_faults(scope):
                answer = await self._site.answer(scope, receive, body)
                return await self._when_ended(receive, answer, answer.later) if answer.later else answer
        except asyncio.CancelledError as stopped:  # the server stops, and its patience is over
            detail = "the server is stopping; whether this was done is not known: send it again"
            raise RequestRefused(
                HTTPStatus.SERVICE_UNAVAILABLE, "stopping", detail, retry_seconds=RETRY_SECONDS
            ) from stopped

    async def _when_ended(self, receive: Any, answer: HttpAnswer, later: Later) -> HttpAnswer:
        """Raises ClientLeft."""
        try:
            waiting = later.work() if later.work else self._ends.wait(later.run)
            if await unless_gone(receive, waiting) is None:
                raise ClientLeft
        except asyncio.CancelledError:  # the server stops: as things are
            return answer
        return answer.with_body(*await self._site.in_thread(receive, own_connection()(later.render)))


def below_site(scope: Any) -> Any:
    """The request without the path of SITE_URL, which a proxy passes on or has taken off."""
    root, path = settings.FORCE_SCRIPT_NAME or "", scope["path"]
    return {**scope, "path": path[len(root) :] or "/"} if root and f"{path}/".startswith(f"{root}/") else scope


@contextmanager
def refusing_faults(scope: Any) -> Iterator[None]:
    """Raises RequestRefused for what is nobody's mistake and passes."""
    try:
        yield
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        log.error("%s %s: %s", scope["method"], scope["path"], error)
        raise RequestRefused(fault.status, fault.code, fault.detail, retry_seconds=fault.retry_seconds) from error


async def _stay() -> Any:
    """A client whose leaving is noticed later: what it sends is not read yet."""
    await asyncio.Event().wait()


SPANS: Final = ("/v1/traces/", "/api/public/otel/v1/traces/")
"""Where OpenTelemetry delivers, and Langfuse."""
OF_SITE: Final = (*SPANS, "/v1/files/", "/v1/uploads/", "/v1/fine_tuning/")
"""Addresses below ``/v1`` that the site answers, and not the gateway."""
_CODES: Final = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request_too_large",
    HTTPStatus.REQUEST_TIMEOUT: "timeout",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_exceeded",
    HTTPStatus.SERVICE_UNAVAILABLE: "busy",
}


def is_for_gateway(scope: Any) -> bool:
    """All under ``/v1``, for what is not there too, but what the site answers: models are deleted there."""
    path = scope["path"]
    is_deletion = scope["method"] == "DELETE" and path.startswith("/v1/models/")
    return f"{path}/".startswith("/v1/") and not f"{path}/".startswith(OF_SITE) and not is_deletion


def speaks_openai(path: str) -> bool:
    """Whether its errors are those that the gateway's clients read."""
    return f"{path}/".startswith("/v1/") and not f"{path}/".startswith(SPANS)


def as_gateway_answer(refused: RequestRefused, path: str) -> HttpAnswer:
    """In the shape of its dialect's errors."""
    response = _as_refusal(refused).response(dialect=dialect_at(path))
    return HttpAnswer(response.status_code, response.raw_headers, bytes(response.body))


def _as_refusal(refused: RequestRefused) -> Refusal:
    code = _CODES.get(refused.status, refused.code)
    return Refusal(refused.status, refused.detail, code=code, headers=refused.headers)


def _refusing(take: Callable[[int], None]) -> Callable[[int], None]:
    """The same for the gateway, which knows Refusal alone."""

    def hold(count: int) -> None:
        try:
            take(count)
        except RequestRefused as refused:
            raise _as_refusal(refused) from None

    return hold


HEADER: Final = b"x-request-id"
REQUESTS = Counter("ratchet_requests", "Requests that were answered.", ["area", "method", "status"])
SECONDS = Histogram(
    "ratchet_request_seconds",
    "From a request's headers to the last byte of its answer.",
    ["area"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120, 600),
)
AREAS: Final = {
    **dict.fromkeys(("/v1/traces", "/api/public/otel"), "otlp"),
    **dict.fromkeys(("/v1/files", "/v1/uploads", "/v1/fine_tuning"), "tuning"),
    "/v1/": "gateway",
    "/api/": "api",
    "/admin/": "admin",
    "/static/": "static",
    "/healthz": "health",
    "/readyz": "health",
    "/metrics": "metrics",
}
"""By how the path begins; all else is ``pages``. Few, and fixed: each is a series of its own."""
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@contextmanager
def observe(scope: Any, send: Any) -> Iterator[Any]:
    """Gives the ``send`` to answer with. The status is ``none`` where the client left before there was one."""
    given = next((value.decode("latin-1") for name, value in scope["headers"] if name == HEADER), "")
    number, began, status = logs.request_number(given), time.perf_counter(), "none"

    async def pass_on(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = str(message["status"])
            named = any(name == HEADER for name, _ in message["headers"])
            more = [] if named else [(HEADER, number.encode())]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    try:
        with logs.about(logs.request_id, number):
            yield pass_on
    finally:
        area, method = area_of(scope["path"]), scope["method"]
        REQUESTS.labels(area, method if method in _METHODS else "other", status).inc()
        SECONDS.labels(area).observe(time.perf_counter() - began)


def area_of(path: str) -> str:
    return next((area for start, area in AREAS.items() if path.startswith(start)), "pages")


STOP_SECONDS: Final = 10.0
"""Given to the answers of a worker whose master is gone, beyond what uvicorn gives them."""


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    log.error("the process that started this worker is gone: the worker ends")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_SECONDS)
    os._exit(1)
