"""``/v1/chat/completions`` and ``/v1/models``."""

import logging
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import httpx
from django.conf import settings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Path

from rl.base import disk_space, logs
from rl.base.errors import UsageError
from rl.models import ApiKey
from rl.serving.gateway.best_of import answer_best, as_events, asks_for_several
from rl.serving.gateway.chat_request import ChatRequest, parse_request
from rl.serving.gateway.choosing import Chooser
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.forms import Forms
from rl.serving.gateway.refusals import Refusal, json_response, out_of_room, unkept
from rl.serving.gateway.routing import KnownAgent, KnownKey, Route, route
from rl.serving.gateway.streaming import EventStream, unless_gone
from rl.serving.gateway.table import Table
from rl.serving.gateway.turns import Pulse, Turns
from rl.serving.gateway.upstream import new_client
from rl.serving.gateway.writer import Recorder, Writer
from rl.serving.machine import note_request
from rl.serving.upstreams import deploy_command

WINDOW_SECONDS: Final = 60
CALLER: Final = "ratchet.caller"
"""In the ASGI scope of a request: the KnownKey of somebody whom the site has checked already. No client can put it there."""
BLIND_ID: Final = "ratchet.blind_id"
"""In the ASGI scope of a request of the site: the UUID of its answer, which is given without a word on the version."""
CHAT_PATH: Final = "/v1/chat/completions"
MOST_MODELS: Final = 1000
"""Models in one list."""
SWITCH_SECONDS: Final = 0.001
"""How long a thread that computes (a page of the site, rows being stored) may keep the requests of the gateway waiting; it
is five times that in Python's default."""
log = logging.getLogger(__name__)


class GatewayRequestRate:
    """API_REQUESTS_PER_MINUTE for each key or person, as in the API, but in the memory of this process: a shared cache would
    be asked over the network, and each worker counts for itself therefore."""

    def __init__(self) -> None:
        self._window = 0
        self._counts: Counter[Hashable] = Counter()

    def wait(self, caller: Hashable) -> int:
        """Counts a request; 0, or the seconds until the next one is taken."""
        now = int(time.time())
        if now // WINDOW_SECONDS != self._window:
            self._window = now // WINDOW_SECONDS
            self._counts.clear()
        self._counts[caller] += 1
        return WINDOW_SECONDS - now % WINDOW_SECONDS if self._counts[caller] > settings.API_REQUESTS_PER_MINUTE else 0


class Gateway:
    """What the requests of one process share."""

    def __init__(self) -> None:
        self.table = Table()
        self.limit = GatewayRequestRate()
        self.writer = Writer()
        self.recorder = Recorder(self.writer)
        self.client: httpx.AsyncClient = new_client()
        self.turns = Turns()
        self.forms = Forms(self.client)
        self.chooser = Chooser(self.client, self.forms)
        self.pulse = Pulse(self.turns)
        self._warned: set[str] = set()

    async def caller(self, request: Request, *scopes: ApiKey.Scope) -> KnownKey:
        """Whose request it is; he must have one of the scopes. Raises Refusal."""
        key: KnownKey = request.scope.get(CALLER) or await self._key_of(request)
        if not key.is_secret:
            raise Refusal(
                403, "this needs a secret key (sk_…); a publishable key may only rate", code="secret_key_needed"
            )
        if key.scopes.isdisjoint(scopes):
            needed, has = " or ".join(repr(scope.value) for scope in scopes), ", ".join(sorted(key.scopes)) or "none"
            why = f"this needs a key with the scope {needed}; the scopes of this key: {has}"
            raise Refusal(403, why, code="scope_needed")
        if wait := self.limit.wait(key.caller):
            message = f"more than {settings.API_REQUESTS_PER_MINUTE} requests in a minute; go on in {wait} seconds"
            raise Refusal(429, message, code="rate_limit_exceeded", headers={"Retry-After": str(wait)})
        return key

    async def _key_of(self, request: Request) -> KnownKey:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise Refusal(401, "send an API key as 'Authorization: Bearer sk_…'", code="missing_api_key")
        digest = ApiKey.digest_of(secret.strip())
        key = self.table.snapshot.keys.get(digest) or (await self.table.fresh()).keys.get(digest)
        if key is None or key.has_expired():
            raise Refusal(401, "this API key is unknown, was revoked, or has expired", code="invalid_api_key")
        return key

    async def route(self, key: KnownKey, chat_request: ChatRequest) -> Route:
        """May lead to what nothing serves. Raises Refusal."""
        now = datetime.now(UTC)
        try:
            try:
                chosen = route(self.table.snapshot, key, chat_request.model, chat_request.unit, now)
            except UsageError:
                chosen = route(await self.table.fresh(), key, chat_request.model, chat_request.unit, now)
        except UsageError as error:
            raise Refusal(404, str(error), param="model", code="model_not_found") from None
        if chosen.served.upstream is None:
            chosen = route(await self.table.fresh(), key, chat_request.model, chat_request.unit, now)
        if chosen.stands_in and chosen.model not in self._warned:
            self._warned.add(chosen.model)
            log.warning("%s answers, because the version in use is not served", chosen.model)
        return chosen


async def chat(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    key = await gateway.caller(request, ApiKey.Scope.INGEST)
    chat_request = parse_request(await request.body(), request.headers, key)
    blind_id = request.scope.get(BLIND_ID)
    exchange = Exchange(
        key, chat_request, await gateway.route(key, chat_request), blind_id or uuid4(), is_blind=blind_id is not None
    )
    logs.trace_id.set(str(exchange.id))
    note_request()
    if disk_space.is_full(settings.DATA_DIR):  # an answer that could not be kept is not asked for
        raise out_of_room()
    try:
        if exchange.route.served.upstream is None:
            agent, served = exchange.route.agent.name, exchange.route.served
            message = f"{served.problem}; deploy it: {deploy_command(agent, served.version)}"
            raise Refusal(503, message, param="model", code="model_not_served", blames_version=True)
        return await unless_gone(request.receive, _answer(gateway, exchange)) or Response(status_code=499)
    except Refusal as refusal:
        exchange.failed = refusal.blames_version
        gateway.recorder.record(exchange)
        return _without_names(request, refusal).response(exchange.side_headers())


def _without_names(request: Request, refusal: Refusal) -> Refusal:
    """Errors of a version name it; in a blind comparison the log alone does."""
    if BLIND_ID not in request.scope:
        return refusal
    log.warning("a blind answer did not come: %s", refusal.message)
    return refusal.without_names()


async def _answer(gateway: Gateway, exchange: Exchange) -> Response:
    """One of a closed set, the best of several, and calls in words are there whole before they can be streamed."""
    if gateway.chooser.chooses(exchange):
        document = await gateway.chooser.answer(gateway.turns, exchange)
        exchange.answer.take(document)
    elif asks_for_several(exchange):
        document = await answer_best(gateway.forms, gateway.turns, exchange)
    elif exchange.request.streams and not await gateway.forms.reads_calls(exchange):
        await gateway.turns.take(exchange)
        try:
            return EventStream(exchange, await gateway.forms.ask(exchange), gateway.recorder, gateway.turns)
        except BaseException:
            gateway.turns.leave(exchange)
            raise
    else:
        async with gateway.turns.of(exchange):
            document = await gateway.forms.complete(exchange)
        exchange.answer.take(document)
    exchange.answer.complete = True
    if error := await gateway.recorder.record_and_wait(exchange):
        raise unkept(error)
    if exchange.request.streams:
        return Response(as_events(exchange, document), headers=exchange.headers(), media_type=EventStream.media_type)
    return json_response(exchange.under_our_name(document), headers=exchange.headers())


async def models(request: Request) -> Response:
    """Agents, and each served version of theirs as ``agent@version``: at most MOST_MODELS, those behind ``after``."""
    gateway: Gateway = request.app.state.gateway
    key = await gateway.caller(request, ApiKey.Scope.INGEST, ApiKey.Scope.READ)
    entries = [entry for agent in gateway.table.snapshot.visible_to(key) for entry in _models_of(agent)]
    if after := request.query_params.get("after"):
        behind = [number for number, entry in enumerate(entries, 1) if entry["id"].lower() == after.lower()]
        if not behind:
            raise Refusal(404, f"there is no model {after[:100]!r}", param="after", code="model_not_found")
        entries = entries[behind[0] :]
    listed = entries[:MOST_MODELS]
    return json_response({"object": "list", "data": listed, "has_more": len(entries) > len(listed)})


async def one_model(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    key = await gateway.caller(request, ApiKey.Scope.INGEST, ApiKey.Scope.READ)
    name = request.path_params["name"]
    for agent in (await gateway.table.fresh()).visible_to(key):
        for entry in _models_of(agent):
            if entry["id"].lower() == name.lower():
                return json_response(entry)
    raise Refusal(404, f"there is no model {name[:100]!r}", param="model", code="model_not_found")


def _models_of(agent: KnownAgent) -> list[dict[str, Any]]:
    names = [agent.name, *(f"{agent.name}@{version}" for version in agent.pins())]
    created = int(agent.created_at.timestamp())
    return [{"id": name, "object": "model", "created": created, "owned_by": "ratchet"} for name in names]


# --- what goes wrong ---------------------------------------------------------------------------------------------------


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)  # noqa: S101
    return _without_names(request, error).response()


async def _on_disconnect(request: Request, error: Exception) -> Response:
    return Response(status_code=499)


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Answers errors that Starlette itself raises, such as for a method that an address does not take."""
    assert isinstance(error, HTTPException)  # noqa: S101
    known = {404: "there is nothing at this address", 405: f"{request.method} is not allowed here"}
    message = known.get(error.status_code, error.detail)
    return Refusal(error.status_code, message, headers=error.headers).response()


async def _on_bug(request: Request, error: Exception) -> Response:
    return Refusal(500, "the gateway broke; its log says why", code="internal_error").response()


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    sys.setswitchinterval(SWITCH_SECONDS)
    app.state.gateway = gateway = Gateway()
    gateway.writer.start()
    await gateway.table.start()
    gateway.pulse.start()
    try:
        yield
    finally:
        await gateway.recorder.settle()
        await gateway.chooser.stop()
        await gateway.pulse.stop()
        await gateway.table.stop()
        await gateway.client.aclose()
        gateway.writer.stop()


application = Starlette(
    routes=[
        Path(CHAT_PATH, chat, methods=["POST"]),
        Path("/v1/models", models, methods=["GET"]),
        Path("/v1/models/{name}", one_model, methods=["GET"]),
    ],
    lifespan=_lifespan,
    exception_handlers={
        Refusal: _on_refusal,
        ClientDisconnect: _on_disconnect,
        HTTPException: _on_http_error,
        Exception: _on_bug,
    },
)
