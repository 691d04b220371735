"""Has servers keep answers to their form by fields of the request, where the client asks for no form itself.

JSON goes by ``response_format``, which llama.cpp, vLLM and Ollama know: Ollama makes its own ``format`` of it
(``openai/openai.go`` of ollama/ollama). A set goes to vLLM as ``structured_outputs: {"choice": [...]}``, before its version
0.12 as ``guided_choice`` (https://docs.vllm.ai/en/latest/features/structured_outputs/); it passes over fields that it does
not know, so what counts is the answer. To Ollama the set goes as a schema too: its answer is a JSON text, of which the
quotation marks are taken off.

A server that refuses a form (400, 422) is asked once more without, and not in that form again for this set or schema.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx

from rl.collect.feedback.structured_answers import StructuredAnswers
from rl.serving.gateway.chat_request import LENGTHS
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import Route
from rl.serving.gateway.turns import Turns
from rl.serving.gateway.upstream import Piece, ask, completion

MOST_KEPT: Final = 100
"""Servers, with a set or schema each, of which the forms are known."""
_REFUSES: Final = (400, 422)
_OTHER: Final = ("response_format", "tools", "tool_choice")
_WHOLE: Final = {"stream": False, "stream_options": None, "temperature": 0}
_AROUND: Final = 8
"""Tokens beside those of an answer, such as quotation marks."""
Form = Mapping[str, Any]
Key = tuple[Any, ...]
log = logging.getLogger(__name__)


def json_schema(schema: Mapping[str, Any]) -> Form:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}


CHOICE_FORMS: Final[Mapping[str, Callable[[Sequence[str]], Form]]] = {
    "structured_outputs": lambda values: {"structured_outputs": {"choice": list(values)}},
    "guided_choice": lambda values: {"guided_choice": list(values)},
    "response_format": lambda values: json_schema({"type": "string", "enum": list(values)}),
}


def names_no_form(exchange: Exchange) -> bool:
    return not any(exchange.request.document.get(name) for name in _OTHER)


def server_of(route: Route) -> Key:
    upstream = route.served.upstream
    return (upstream.server or upstream.base_url, upstream.model, route.served.version) if upstream else ()


@dataclass(slots=True)
class Forms:
    """What one process knows of its servers."""

    client: httpx.AsyncClient
    _left: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    """By server and what is asked for: the forms that it has not refused."""

    async def ask(self, exchange: Exchange) -> httpx.Response:
        """As ``upstream.ask``, with the schema of the agent. Raises Refusal."""
        structure = exchange.route.agent.structure
        if structure is None or not names_no_form(exchange):
            return await ask(self.client, exchange)
        key = (*server_of(exchange.route), json.dumps(structure.schema))
        exchange.keeping.update({"form": "json_schema", "reason": structure.reason})
        if self._left.get(key) != ():
            try:
                return await ask(self.client, exchange, _with_room(exchange, structure))
            except Refusal as refusal:
                if refusal.status not in _REFUSES:
                    raise
                response = await ask(self.client, exchange)  # may be refused as well: then the form was not the fault
                self._keep(key, ())
                log.warning("%s answers freely, it refuses the schema: %s", exchange.route.model, refusal.message)
        else:
            response = await ask(self.client, exchange)
        exchange.keeping.update({"form": "refused"})
        return response

    def has_left(self, exchange: Exchange) -> bool:
        """Whether a form is known, or still to be tried, in which its server takes the set."""
        return bool(self._choices_left(exchange))

    async def choose(self, turns: Turns, exchange: Exchange) -> Piece:
        """A completion with an answer of the closed set, in the first form in which the server keeps to it; as it answers
        without where there is none. Raises Refusal."""
        closed = exchange.route.agent.closed
        assert closed is not None  # noqa: S101  whoever has none does not get here
        whole = _as_whole(exchange, closed.values)
        left = self._choices_left(exchange)
        async with turns.of(exchange):
            for number, form in enumerate(left):
                document = await self._try(whole, form, closed.values)
                if document is not None:
                    self._keep(self._key(exchange), left[number:])
                    exchange.choosing = {"among": len(closed.values), "form": form}
                    return document
            document = await completion(whole, await ask(self.client, whole))
        self._keep(self._key(exchange), ())
        log.warning("%s answers freely, it keeps to no set: %s were tried", exchange.route.model, ", ".join(left))
        return document

    async def _try(self, whole: Exchange, form: str, values: Sequence[str]) -> Piece | None:
        """None where it is refused, or passed over."""
        try:
            document = await completion(whole, await ask(self.client, whole, CHOICE_FORMS[form](values)))
        except Refusal as refusal:
            if refusal.status not in _REFUSES:
                raise
            return None
        text = _text_of(document)
        if form == "response_format":
            text = _without_quotes(text)
        if text not in values:
            return None
        choice = document["choices"][0]
        return {**document, "choices": [{**choice, "message": {**choice["message"], "content": text}}]}

    def _choices_left(self, exchange: Exchange) -> tuple[str, ...]:
        upstream = exchange.route.served.upstream
        return self._left.get(self._key(exchange), upstream.choice_forms if upstream else ())

    def _key(self, exchange: Exchange) -> Key:
        closed = exchange.route.agent.closed
        return (*server_of(exchange.route), closed.values if closed else ())

    def _keep(self, key: Key, left: tuple[str, ...]) -> None:
        self._left = {**dict(list(self._left.items())[-MOST_KEPT:]), key: left}


def _with_room(exchange: Exchange, structure: StructuredAnswers) -> Form:
    """The schema; where the request names no length, a process of ours gets the room to come to an end."""
    form, upstream = json_schema(structure.schema), exchange.route.served.upstream
    names_length = any(exchange.request.document.get(name) is not None for name in LENGTHS)
    if upstream is None or upstream.server is None or names_length or not structure.ends:
        return form
    return {**form, "max_tokens": upstream.context}


def _as_whole(exchange: Exchange, values: Sequence[str]) -> Exchange:
    """The request without a stream, for the likeliest answer, with room for the longest."""
    body = {**exchange.request.document, **_WHOLE}
    room = max(len(value.encode()) for value in values) + _AROUND
    body |= {name: max(body[name], room) for name in LENGTHS if name in body}
    document = {name: value for name, value in body.items() if value is not None}
    return replace(exchange, request=replace(exchange.request, document=document))


def _text_of(document: Piece) -> str:
    choice = document["choices"][0] if document["choices"] else {}
    message = choice.get("message") if isinstance(choice, dict) else None
    text = message.get("content") if isinstance(message, dict) else None
    return text.strip() if isinstance(text, str) else ""


def _without_quotes(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""
