"""What the requests of one process share: who asks, how often, and which version answers."""

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Final, ParamSpec, TypeVar

import httpx
from django.db import DatabaseError
from starlette.requests import Request

from rl.base.errors import UsageError
from rl.collect.limits import MAX_MESSAGES
from rl.models import ApiKey
from rl.serving.dialects.dialect import ApiDialect, Earlier, UntranslatableRequest
from rl.serving.gateway.chat_request import ChatRequest, parse_request, read_body
from rl.serving.gateway.choosing import Chooser
from rl.serving.gateway.forms import Forms
from rl.serving.gateway.packed_body import read_packed
from rl.serving.gateway.refusals import Refusal, unread, untranslatable
from rl.serving.gateway.request_rate import RATE, GatewayRequestRate
from rl.serving.gateway.routing import KnownKey, Route, route
from rl.serving.gateway.stored import find_earlier
from rl.serving.gateway.table import Table, own_connection
from rl.serving.gateway.turns import Pulse, Turns
from rl.serving.gateway.upstream import new_client
from rl.serving.gateway.writer import Recorder, Writer
from rl.serving.upstreams import deploy_command

CALLER: Final = "ratchet.caller"
"""In the ASGI scope of a request: the KnownKey of somebody whom the site has checked already. No client can put it there."""
ADDRESS: Final = "ratchet.address"
"""The same of whoever is at the other end: its address, as far as proxies can be trusted."""
Given = ParamSpec("Given")
Result = TypeVar("Result")
log = logging.getLogger(__name__)


async def in_database(work: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Result:
    """What ``work`` returns, in a thread of its own. Raises Refusal where the database does not answer."""
    try:
        return await asyncio.to_thread(own_connection()(work), *arguments, **named)
    except DatabaseError as error:
        log.error("stored answers cannot be read now: %s", error)
        raise unread() from None


def not_served(route: Route) -> Refusal:
    message = f"{route.served.problem}; deploy it: {deploy_command(route.agent.name, route.served.version)}"
    return Refusal(503, message, param="model", code="model_not_served", blames_version=True)


def _require_page(key: KnownKey, request: Request, scopes: Collection[ApiKey.Scope]) -> None:
    """Raises Refusal where a publishable key may not ask, or not from the page that the request comes from."""
    if ApiKey.Scope.CHAT not in key.scopes or ApiKey.Scope.CHAT not in scopes:
        why = "this needs a secret key (sk_…); a publishable key may only rate, and ask its agent if it has the scope 'chat'"
        raise Refusal(403, why, code="secret_key_needed")
    origin = request.headers.get("origin", "")
    if origin not in key.origins:
        why = f"the origin {origin[:200]!r} is not among those that this key works from; only browsers have one"
        raise Refusal(403, why, code="origin_not_allowed")


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
        """Returns whose request it is, where that key has one of the scopes. Raises Refusal."""
        key: KnownKey = request.scope.get(CALLER) or await self._key_of(request)
        if not key.is_secret:
            _require_page(key, request, scopes)
        if key.scopes.isdisjoint(scopes):
            needed, has = " or ".join(repr(scope.value) for scope in scopes), ", ".join(sorted(key.scopes)) or "none"
            why = f"this needs a key with the scope {needed}; the scopes of this key: {has}"
            raise Refusal(403, why, code="scope_needed")
        # a page's key is that of all who visit it
        caller = key.caller if key.is_secret else (*key.caller, request.scope.get(ADDRESS, ""))
        request.scope[RATE] = rate = self.limit.count(caller)
        if rate.is_exceeded:
            message = f"more than {rate.limit} requests in a minute; go on in {rate.seconds} seconds"
            raise Refusal(429, message, code="rate_limit_exceeded", headers={"Retry-After": str(rate.seconds)})
        return key

    async def _key_of(self, request: Request) -> KnownKey:
        """Anthropic's clients send it in a header of their own."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        secret = secret if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
        if not secret.strip():
            raise Refusal(401, "send an API key as 'Authorization: Bearer sk_…'", code="missing_api_key")
        digest = ApiKey.digest_of(secret.strip())
        key = self.table.snapshot.keys.get(digest) or (await self.table.fresh()).keys.get(digest)
        if key is None or key.has_expired():
            raise Refusal(401, "this API key is unknown, was revoked, or has expired", code="invalid_api_key")
        return key

    async def route(self, key: KnownKey, chat_request: ChatRequest) -> Route:
        """May lead to what nothing serves. Which version answers a page is not the page's to say. Raises Refusal."""
        if not key.is_secret and self.table.snapshot.pin_of(chat_request.model).partition("@")[1]:
            why = "a publishable key asks its agent by its name alone, without a version"
            raise Refusal(403, why, param="model", code="version_not_allowed")
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

    async def read(self, request: Request, key: KnownKey, dialect: ApiDialect) -> ChatRequest:
        """Raises Refusal."""
        sent = read_body(await read_packed(request))
        earlier: Earlier = {}
        if names := dialect.ids_in(sent):
            earlier = await in_database(find_earlier, key, names[:MAX_MESSAGES], sent["model"])
        try:
            form = dialect.as_chat(sent, earlier)
        except UntranslatableRequest as error:
            raise untranslatable(error) from None
        try:
            return parse_request(form, request.headers, key, dialect)
        except Refusal as refusal:
            raise refusal.where_sent(form) from None
