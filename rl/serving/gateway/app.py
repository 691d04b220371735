"""The addresses under ``/v1`` at which models answer, in each dialect, and those that list models."""

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

from django.conf import settings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Path

from rl.base import disk_space, logs
from rl.models import ApiKey
from rl.serving.dialects.known import DIALECTS, dialect_at
from rl.serving.gateway.best_of import answer_all, answer_best, as_events, asks_for_several, wants_several
from rl.serving.gateway.embeddings import embeddings
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.gateway import Gateway, not_served
from rl.serving.gateway.page_origins import PageOrigins
from rl.serving.gateway.refusals import Refusal, json_response, out_of_room, unkept
from rl.serving.gateway.request_rate import RateHeaders
from rl.serving.gateway.retrieval import count_tokens, delete_response, input_items, new_conversation, one_response
from rl.serving.gateway.routing import KnownKey, Snapshot
from rl.serving.gateway.streaming import EventStream, unless_gone
from rl.serving.gateway.trace_context import read_context
from rl.serving.machine import note_request

BLIND_ID: Final = "ratchet.blind_id"
"""In the ASGI scope of a request of the site: the UUID of its answer, which is given without a word on the version."""
MOST_MODELS: Final = 1000
"""Models in one list."""
SWITCH_SECONDS: Final = 0.001
"""How long a thread that computes (a page of the site, rows being stored) may keep the requests of the gateway waiting; it
is five times that in Python's default."""
log = logging.getLogger(__name__)


async def answer(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    key = await gateway.caller(request, ApiKey.Scope.CHAT, ApiKey.Scope.INGEST)
    chat_request = await gateway.read(request, key, dialect_at(request.url.path))
    blind_id = request.scope.get(BLIND_ID)
    exchange = Exchange(
        key,
        chat_request,
        await gateway.route(key, chat_request),
        blind_id or uuid4(),
        is_blind=blind_id is not None,
        trace_context=read_context(request.headers),
    )
    logs.trace_id.set(str(exchange.id))
    note_request()
    if disk_space.is_full(settings.DATA_DIR):  # an answer that could not be kept is not asked for
        raise out_of_room()
    try:
        if exchange.route.served.upstream is None:
            raise not_served(exchange.route)
        return await unless_gone(request.receive, _answer(gateway, exchange)) or Response(status_code=499)
    except Refusal as refusal:
        exchange.failed = refusal.blames_version
        gateway.recorder.record(exchange)
        refusal = _without_names(request, refusal.where_sent(chat_request.form), of_page=not key.is_secret)
        return refusal.response(exchange.side_headers(), chat_request.dialect)


def _without_names(request: Request, refusal: Refusal, *, of_page: bool = False) -> Refusal:
    """Errors of a version name it, and what the operator can do; in a blind comparison, and for visitors of a page, the log
    alone does."""
    if BLIND_ID not in request.scope and not (of_page and refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR):
        return refusal
    log.warning("an answer did not come: %s", refusal.message)
    return refusal.without_names()


async def _answer(gateway: Gateway, exchange: Exchange) -> Response:
    """One of a closed set, the best of several, and calls in words are there whole before they can be streamed."""
    if gateway.chooser.chooses(exchange):
        document = await gateway.chooser.answer(gateway.turns, exchange)
        exchange.answer.take(document)
    elif asks_for_several(exchange):
        document = await answer_best(gateway.forms, gateway.turns, exchange)
    elif wants_several(exchange):
        document = await answer_all(gateway.forms, gateway.turns, exchange)
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
    return json_response(exchange.whole(document), headers=exchange.headers())


async def models(request: Request) -> Response:
    """Agents, and each served version of theirs as ``agent@version``: at most MOST_MODELS, those behind ``after``."""
    gateway: Gateway = request.app.state.gateway
    key = await gateway.caller(request, ApiKey.Scope.CHAT, ApiKey.Scope.INGEST, ApiKey.Scope.READ)
    entries = _models_of(gateway.table.snapshot, key)
    if after := request.query_params.get("after"):
        behind = [number for number, entry in enumerate(entries, 1) if entry["id"].lower() == after.lower()]
        if not behind:
            raise Refusal(404, f"there is no model {after[:100]!r}", param="after", code="model_not_found")
        entries = entries[behind[0] :]
    listed = entries[:MOST_MODELS]
    return json_response({"object": "list", "data": listed, "has_more": len(entries) > len(listed)})


async def one_model(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    key = await gateway.caller(request, ApiKey.Scope.CHAT, ApiKey.Scope.INGEST, ApiKey.Scope.READ)
    name = request.path_params["name"]
    for entry in _models_of(await gateway.table.fresh(), key):
        if entry["id"].lower() == name.lower():
            return json_response(entry)
    raise Refusal(404, f"there is no model {name[:100]!r}", param="model", code="model_not_found")


def _models_of(snapshot: Snapshot, key: KnownKey) -> list[dict[str, Any]]:
    """What nothing serves is not listed, and to a page no version. In OpenAI's form and in Anthropic's at once."""
    entries = []
    for agent in snapshot.visible_to(key):
        pins = [f"{agent.name}@{version}" for version in agent.pins()]
        names = [agent.name, *pins, *(of.name for of in snapshot.tuned.values() if of.pin in pins)] if pins else []
        created = {"created": int(agent.created_at.timestamp()), "created_at": agent.created_at.isoformat()}
        kind = {"object": "model", "type": "model", "owned_by": "ratchet"}
        shown = names if key.is_secret else names[:1]
        entries += [{"id": name, "display_name": name, **kind, **created} for name in shown]
    return entries


_CODES: Final = {404: "not_found", 405: "method_not_allowed"}
# --- what goes wrong ---------------------------------------------------------------------------------------------------


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)  # noqa: S101
    return _without_names(request, error).response(dialect=dialect_at(request.url.path))


async def _on_disconnect(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Answers errors that Starlette itself raises, such as for a method that an address does not take."""
    assert isinstance(error, HTTPException)  # noqa: S101
    there = ", ".join(dict.fromkeys(path for path, _, _ in ROUTES))
    known = {404: f"there is nothing at this address; there is: {there}", 405: f"{request.method} is not allowed here"}
    message = known.get(error.status_code, error.detail)
    refusal = Refusal(error.status_code, message, code=_CODES.get(error.status_code), headers=error.headers)
    return refusal.response(dialect=dialect_at(request.url.path))


async def _on_bug(request: Request, _: Exception) -> Response:
    refusal = Refusal(500, "the gateway broke; its log says why", code="internal_error")
    return refusal.response(dialect=dialect_at(request.url.path))


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


ROUTES: Final = (
    *((dialect.path, answer, "POST") for dialect in DIALECTS),
    ("/v1/messages/count_tokens", count_tokens, "POST"),
    ("/v1/embeddings", embeddings, "POST"),
    ("/v1/conversations", new_conversation, "POST"),
    ("/v1/responses/{name}", one_response, "GET"),
    ("/v1/responses/{name}", delete_response, "DELETE"),
    ("/v1/responses/{name}/input_items", input_items, "GET"),
    ("/v1/models", models, "GET"),
    ("/v1/models/{name}", one_model, "GET"),
)
application = Starlette(
    # some clients end every address with a slash
    routes=[Path(path + end, view, methods=[method]) for path, view, method in ROUTES for end in ("", "/")],
    lifespan=_lifespan,
    middleware=[Middleware(PageOrigins), Middleware(RateHeaders)],
    exception_handlers={
        Refusal: _on_refusal,
        ClientDisconnect: _on_disconnect,
        HTTPException: _on_http_error,
        Exception: _on_bug,
    },
)
