"""One answer of one version to a prompt that was asked before, straight from its server: nobody's traffic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import httpx

from rl.base.errors import Interrupted
from rl.models import Trace
from rl.serving.gateway.best_of import TEMPERATURE
from rl.serving.gateway.chat_request import ChatRequest
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.fields import check_field
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import KnownAgent, KnownKey, Route
from rl.serving.gateway.upstream import ask, completion, new_client
from rl.serving.second_answers.choosing import Choice

_LOOK_SECONDS: Final = 0.2
_SAME: Final = ("temperature", "top_p", "max_tokens", "max_completion_tokens")
"""Parameters of the first answer that the second is asked with too."""


def answer(known: KnownAgent, first: Trace, choice: Choice, may_go_on: Callable[[], bool]) -> Exchange:
    """Raises Refusal, and Interrupted as soon as it may not go on: the server is told to stop by the broken connection."""
    exchange = Exchange(KnownKey(None, True, known.id), _request(known, first, choice.repeats), Route(known, choice.by))
    asyncio.run(_watch(exchange, may_go_on))
    return exchange


def _request(known: KnownAgent, first: Trace, repeats: bool) -> ChatRequest:
    parameters = _parameters(first.details.get("parameters"))
    if repeats and not parameters.get("temperature"):
        parameters["temperature"] = TEMPERATURE  # else the same words again
    document: dict[str, Any] = {"messages": first.prompt, "model": known.name, **parameters}
    return ChatRequest(document, known.name, tuple(first.prompt), unit="", session_id="")


def _parameters(given: object) -> dict[str, Any]:
    """Whoever sends traces writes them: what the gateway would refuse is left out."""
    parameters: dict[str, Any] = {}
    for name in _SAME:
        with suppress(Refusal):
            parameters |= check_field(name, given) if isinstance(given, dict) else {}
    return parameters


async def _watch(exchange: Exchange, may_go_on: Callable[[], bool]) -> None:
    async with new_client() as client:
        work = asyncio.create_task(_complete(client, exchange))
        while not work.done():
            await asyncio.wait({work}, timeout=_LOOK_SECONDS)
            if not work.done() and not await asyncio.to_thread(may_go_on):
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work
                raise Interrupted("somebody asks the gateway")
        await work


async def _complete(client: httpx.AsyncClient, exchange: Exchange) -> None:
    exchange.answer.take(await completion(exchange, await ask(client, exchange)))
    exchange.answer.complete = True
