"""``/v1/chat/completions`` and ``/v1/models``."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

import httpx
from django.conf import settings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Path

from rl.base import disk_space, logs
from rl.base.errors import UsageError
from rl.models import BASE, ApiKey
from rl.serving.activity import note_request
from rl.serving.gateway import asking
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.keeping import Keeper
from rl.serving.gateway.limiting import RequestsPerMinute
from rl.serving.gateway.refusals import Refusal, json_response, out_of_room, unkept
from rl.serving.gateway.routing import KnownAgent, KnownKey, Route, route
from rl.serving.gateway.streaming import EventStream, unless_gone
from rl.serving.gateway.table import Table
from rl.serving.gateway.upstream import ask, completion, new_client
from rl.serving.gateway.writer import Writer

SWITCH_SECONDS: Final = 0.001
"""How long a thread that computes (a page of the site, rows being stored) may keep the requests of the gateway waiting; it
is five times that in Python's default."""
log = logging.getLogger(__name__)


class Gateway:
    """What the requests of one process share."""

    def __init__(self) -> None:
        self.table = Table()
        self.limit = RequestsPerMinute()
        self.writer = Writer()
        self.keeper = Keeper(self.writer)
        self.client: httpx.AsyncClient = new_client()
        self._told: set[str] = set()

    async def caller(self, request: Request, *scopes: ApiKey.Scope) -> KnownKey:
        """With one of the scopes. Raises Refusal."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise Refusal(401, "send an API key as 'Authorization: Bearer sk_…'", code="missing_api_key")
        digest = ApiKey.digest_of(secret.strip())
        key = self.table.snapshot.keys.get(digest) or (await self.table.fresh()).keys.get(digest)
        if key is None or key.has_expired():
            raise Refusal(401, "this API key is unknown, was revoked, or has expired", code="invalid_api_key")
        _require(key, scopes)
        if wait := self.limit.wait(key.id):
            said = f"more than {settings.API_REQUESTS_PER_MINUTE} requests in a minute; go on in {wait} seconds"
            raise Refusal(429, said, code="rate_limit_exceeded", headers={"Retry-After": str(wait)})
        return key

    async def route(self, key: KnownKey, asked: asking.Asked) -> Route:
        """May lead to what nothing serves. Raises Refusal."""
        now = datetime.now(UTC)
        try:
            try:
                found = route(self.table.snapshot, key, asked.model, asked.unit, now)
            except UsageError:
                found = route(await self.table.fresh(), key, asked.model, asked.unit, now)
        except UsageError as error:
            raise Refusal(404, str(error), param="model", code="model_not_found") from None
        if found.served.upstream is None:
            found = route(await self.table.fresh(), key, asked.model, asked.unit, now)
        if found.stands_in and found.model not in self._told:
            self._told.add(found.model)
            log.warning("%s answers, because the version in use is not served", found.model)
        return found


def _require(key: KnownKey, scopes: Sequence[ApiKey.Scope]) -> None:
    """Raises Refusal."""
    if not key.is_secret:
        raise Refusal(403, "this needs a secret key (sk_…); a publishable key may only rate", code="secret_key_needed")
    if key.scopes.isdisjoint(scopes):
        needed, has = " or ".join(repr(scope.value) for scope in scopes), ", ".join(sorted(key.scopes)) or "none"
        message = f"this needs a key with the scope {needed}; the scopes of this key: {has}"
        raise Refusal(403, message, code="scope_needed")


async def chat(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    key = await gateway.caller(request, ApiKey.Scope.INGEST)
    asked = asking.read(await request.body(), request.headers, key)
    exchange = Exchange(key, asked, await gateway.route(key, asked))
    logs.trace_id.set(str(exchange.id))
    note_request()
    _require_room()
    try:
        if exchange.route.served.upstream is None:
            raise _not_served(exchange.route)
        answer = _streamed(gateway, exchange) if asked.streams else _whole(gateway, exchange)
        return await unless_gone(request.receive, answer) or Response(status_code=499)
    except Refusal as refusal:
        exchange.failed = refusal.blames_version
        gateway.keeper.keep(exchange)
        return refusal.response(exchange.side_headers())


async def _streamed(gateway: Gateway, exchange: Exchange) -> Response:
    return EventStream(exchange, await ask(gateway.client, exchange), gateway.keeper)


async def _whole(gateway: Gateway, exchange: Exchange) -> Response:
    found = await completion(exchange, await ask(gateway.client, exchange))
    exchange.answer.take(found)
    exchange.answer.complete = True
    if error := await gateway.keeper.kept(exchange):
        raise unkept(error)
    return json_response(exchange.under_our_name(found), headers=exchange.headers())


async def models(request: Request) -> Response:
    """Agents by name, and each version of theirs that is served as ``agent@version``."""
    gateway: Gateway = request.app.state.gateway
    key = await gateway.caller(request, ApiKey.Scope.INGEST, ApiKey.Scope.READ)
    listed = [one for agent in gateway.table.snapshot.visible_to(key) for one in _models_of(agent)]
    return json_response({"object": "list", "data": listed})


async def one_model(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    key = await gateway.caller(request, ApiKey.Scope.INGEST, ApiKey.Scope.READ)
    name = request.path_params["name"]
    for agent in (await gateway.table.fresh()).visible_to(key):
        for one in _models_of(agent):
            if one["id"].lower() == name.lower():
                return json_response(one)
    raise Refusal(404, f"there is no model {name[:100]!r}", param="model", code="model_not_found")


def _models_of(agent: KnownAgent) -> list[dict[str, Any]]:
    names = [agent.name, *(f"{agent.name}@{version}" for version in agent.pins())]
    made = int(agent.created_at.timestamp())
    return [{"id": name, "object": "model", "created": made, "owned_by": "ratchet"} for name in names]


def _require_room() -> None:
    """Raises Refusal: an answer that could not be kept is not asked for."""
    if disk_space.is_full(settings.DATA_DIR):
        raise out_of_room()


def _not_served(found: Route) -> Refusal:
    name, version = found.agent.name, found.served.version
    how = f"manage.py deploy_model --agent {name} --target …" + (f" --version {version}" if version != BASE else "")
    said = f"{found.served.problem}; deploy it: {how}"
    return Refusal(503, said, param="model", code="model_not_served", blames_version=True)


# --- what goes wrong ---------------------------------------------------------------------------------------------------


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)  # noqa: S101
    return error.response()


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)


async def _http_error(request: Request, error: Exception) -> Response:
    """Of Starlette's own: a method that an address does not take."""
    assert isinstance(error, HTTPException)  # noqa: S101
    known = {404: "there is nothing at this address", 405: f"{request.method} is not allowed here"}
    said = known.get(error.status_code, error.detail)
    return Refusal(error.status_code, said, headers=error.headers).response()


async def _bug(request: Request, error: Exception) -> Response:
    return Refusal(500, "the gateway broke; its log says why", code="internal_error").response()


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    sys.setswitchinterval(SWITCH_SECONDS)
    app.state.gateway = gateway = Gateway()
    gateway.writer.start()
    await gateway.table.start()
    try:
        yield
    finally:
        await gateway.keeper.settle()
        await gateway.table.stop()
        await gateway.client.aclose()
        gateway.writer.stop()


application = Starlette(
    routes=[
        Path("/v1/chat/completions", chat, methods=["POST"]),
        Path("/v1/models", models, methods=["GET"]),
        Path("/v1/models/{name}", one_model, methods=["GET"]),
    ],
    lifespan=_lifespan,
    exception_handlers={Refusal: _refused, ClientDisconnect: _gone, HTTPException: _http_error, Exception: _bug},
)
