"""Has servers keep answers to their form by fields of the request, where the client asks for no form itself.

JSON goes by ``response_format``, which llama.cpp, vLLM and Ollama know: Ollama makes its own ``format`` of it
(``openai/openai.go`` of ollama/ollama). A set goes to vLLM as ``structured_outputs: {"choice": [...]}``, before its version
0.12 as ``guided_choice`` (https://docs.vllm.ai/en/latest/features/structured_outputs/); it passes over fields that it does
not know, so what counts is the answer. To Ollama the set goes as a schema too: its answer is a JSON text, of which the
quotation marks are taken off.

A server that refuses a request (400, 422) is asked once more without what it refuses, and from then on. Usage in streams is
asked for by the gateway itself, clients name a user for its sake, and many servers are strict about fields that they do not
know; of the two names for the length each is refused by somebody. A server of ours takes all of it; where its model has no
tools it gets them in words.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import httpx

from rl.collect.feedback.kept_answers import StructuredAnswers
from rl.serving.gateway import tools_in_words
from rl.serving.gateway.chat_request import LENGTHS
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.refusals import Refusal, broken_upstream
from rl.serving.gateway.routing import Route
from rl.serving.gateway.turns import Turns
from rl.serving.gateway.upstream import Piece, ask, call, completion

REFUSES: Final = (400, 422)
SCHEMA: Final = "response_format"
"""The field of the agent's schema, where it goes along."""
Body = Mapping[str, Any]
MOST_KEPT: Final = 100
"""Servers, with a set or schema each, of which something is known."""
_AROUND: Final = 8
"""Tokens beside those of an answer, such as quotation marks."""
_HALF: Final = "does not match the expected"
"""What llama.cpp says where an answer breaks a character in two."""
Form = Mapping[str, Any]
Key = tuple[Any, ...]
Value = TypeVar("Value")
log = logging.getLogger(__name__)


def _rename(old: str, new: str) -> Callable[[Body], Body]:
    return lambda body: {new: body.get(new, body[old]), old: None}


def _drop(name: str) -> Callable[[Body], Body]:
    return lambda _: {name: None}


_OF_THE_CLIENT: Final = ("user", "safety_identifier", "metadata", "store", "prompt_cache_key", "service_tier")
"""What the gateway itself reads, or what changes no answer."""
_CHANGES: Final[Mapping[str, Callable[[Body], Body]]] = {
    "stream_options": _drop("stream_options"),
    "max_tokens": _rename(*LENGTHS),
    "max_completion_tokens": _rename(*reversed(LENGTHS)),
    **{name: _drop(name) for name in _OF_THE_CLIENT},
}
"""By the field that is refused: the fields with other values, None for none."""


def apply(body: Body, changes: Sequence[str]) -> dict[str, Any]:
    for name in changes:
        if name in _CHANGES and body.get(name) is not None:
            body = {**body, **_CHANGES[name](body)}
    return {name: value for name, value in body.items() if value is not None}


def next_change(refusal: Refusal, body: Body, changes: Sequence[str], *, is_ours: bool, has_schema: bool) -> str | None:
    """What to change of ``body``, to which ``changes`` were made, so that it may be taken: what the refusal names, else what
    the client has not asked for. None: it is the client's own fault, or nothing is left."""
    left = [name for name in _CHANGES if body.get(name) is not None and not is_ours]
    if any(name in LENGTHS for name in changes):
        left = [name for name in left if name not in LENGTHS]
    left += [SCHEMA] if has_schema else []
    text = f"{refusal.param or ''} {refusal.message}"
    known = {name: match.start() for name in (*_CHANGES, SCHEMA) if (match := re.search(rf"\b{name}\b", text))}
    named = sorted(known.keys() & set(left), key=known.__getitem__)
    unasked = [] if refusal.param or known else [name for name in left if name not in (*LENGTHS, *_OF_THE_CLIENT)]
    return next(iter([*named, *unasked]), None) if refusal.status in REFUSES else None


def json_schema(schema: Mapping[str, Any]) -> Form:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}


CHOICE_FORMS: Final[Mapping[str, Callable[[Sequence[str]], Form]]] = {
    "structured_outputs": lambda values: {"structured_outputs": {"choice": list(values)}},
    "guided_choice": lambda values: {"guided_choice": list(values)},
    "response_format": lambda values: json_schema({"type": "string", "enum": list(values)}),
}


def names_no_form(exchange: Exchange) -> bool:
    return not any(exchange.request.document.get(name) for name in ("response_format", "tools", "tool_choice"))


def keep(known: dict[Key, Value], key: Key, value: Value) -> dict[Key, Value]:
    """With one more, of the MOST_KEPT newest."""
    return {**dict(list(known.items())[-MOST_KEPT:]), key: value}


def server_of(route: Route) -> Key:
    upstream = route.served.upstream
    return (upstream.server or upstream.base_url, upstream.model, route.served.version) if upstream else ()


@dataclass(slots=True)
class Forms:
    """What one process knows of its servers."""

    client: httpx.AsyncClient
    _left: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    """By server and what is asked for: the forms that it has not refused."""
    _changes: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    """By server and schema: what it was asked without, when it answered."""
    _knows_tools: dict[Key, bool] = field(default_factory=dict)

    async def ask(self, exchange: Exchange) -> httpx.Response:
        """As ``upstream.ask``, in the form that the agent and its server need. Raises Refusal."""
        structure = exchange.route.agent.structure
        if structure is None or not names_no_form(exchange):
            return (await self._ask(exchange, {}))[0]
        response, changes = await self._ask(exchange, _with_room(exchange, structure), is_schema=True)
        form = "refused" if SCHEMA in changes else "json_schema"
        exchange.keeping.update({"form": form, "reason": structure.reason})
        return response

    async def _ask(
        self, exchange: Exchange, form: Form, *, is_schema: bool = False
    ) -> tuple[httpx.Response, tuple[str, ...]]:
        """The answer, and what it was asked without. Raises Refusal, the first one."""
        route, key = exchange.route, (*server_of(exchange.route), json.dumps(form) if is_schema else "")
        body = {**exchange.request.for_upstream(route), **await self._tools(exchange)}
        changes = self._changes.get(key, ())
        first: Refusal | None = None
        while True:
            has_schema = is_schema and SCHEMA not in changes
            sent = apply({**body, **(form if has_schema or not is_schema else {})}, changes)
            try:
                response = await ask(self.client, exchange, sent)
                break
            except Refusal as refusal:
                first = first or refusal
                more = next_change(refusal, sent, changes, is_ours=route.served.is_ours, has_schema=has_schema)
                if more is None:
                    raise first from None
                changes = (*changes, more)
        if first:
            self._changes = keep(self._changes, key, changes)
            log.warning("%s is asked without %s from now on: %s", route.model, ", ".join(changes), first.message)
        return response, changes

    async def complete(self, exchange: Exchange) -> Piece:
        """The whole completion, also of a request that streams. Raises Refusal."""
        whole = replace(exchange, request=exchange.request.as_whole())
        try:
            document = await completion(whole, await self.ask(whole))
        except Refusal as refusal:
            if _HALF not in refusal.message:
                raise
            seed = exchange.request.document.get("seed")
            again = exchange.request.as_whole(seed=None if seed is None else seed + 1)
            document = await completion(whole, await self.ask(replace(exchange, request=again)))
        return tools_in_words.with_calls_read(document, whole.request) if await self.reads_calls(whole) else document

    async def reads_calls(self, exchange: Exchange) -> bool:
        """Whether it may call tools, and does so in words; the answer must be there whole then. Raises Refusal."""
        return tools_in_words.may_call(exchange.request) and not await self._has_own_tools(exchange)

    async def _tools(self, exchange: Exchange) -> Form:
        """Fields that put tools into words, where they must be. Raises Refusal."""
        if not tools_in_words.has_tools(exchange.request) or await self._has_own_tools(exchange):
            return {}
        return tools_in_words.in_words(exchange.request, exchange.route)

    async def _has_own_tools(self, exchange: Exchange) -> bool:
        """Whether the template of a server of ours writes tools; others see to that themselves. Raises Refusal."""
        upstream, key = exchange.route.served.upstream, server_of(exchange.route)
        if upstream is None or not exchange.route.served.is_ours:
            return True
        if key not in self._knows_tools:
            url = f"{upstream.base_url.removesuffix('/v1')}/apply-template"
            try:
                written = str((await call(self.client, exchange.route.served, url, tools_in_words.TRIAL)).get("prompt"))
            except Refusal as refusal:
                if refusal.status in (503, 504):  # it is being started, or slow
                    raise
                written = ""  # the template refuses such messages
            self._knows_tools = keep(self._knows_tools, key, tools_in_words.knows_tools(written))
        return self._knows_tools[key]

    async def count_tokens(self, exchange: Exchange) -> int:
        """Counts those of the prompt, as the template writes it. Raises Refusal where another program is the server."""
        served, upstream = exchange.route.served, exchange.route.upstream
        if not served.is_ours:
            message = f"the server of {exchange.route.model} is not asked how many tokens a chat has"
            raise Refusal(400, message, code="unsupported_operation")
        body = {**exchange.request.for_upstream(exchange.route), **await self._tools(exchange)}
        base = upstream.base_url.removesuffix("/v1")
        chat = {name: body[name] for name in ("messages", "tools", "chat_template_kwargs") if body.get(name)}
        written = (await call(self.client, served, f"{base}/apply-template", chat)).get("prompt")
        asked = {"content": written, "add_special": True, "parse_special": True}
        tokens = (await call(self.client, served, f"{base}/tokenize", asked)).get("tokens")
        if not isinstance(tokens, list):
            raise broken_upstream(served.version, "did not count the tokens")
        return len(tokens)

    async def choose(self, turns: Turns, exchange: Exchange) -> Piece:
        """A completion with an answer of the closed set, in the first form in which the server keeps to it; as it answers
        without where there is none. Raises Refusal."""
        closed = exchange.route.agent.closed
        assert closed is not None  # noqa: S101  whoever has none does not get here
        # without a stream, for the likeliest answer, with room for the longest
        room = max(len(value.encode()) for value in closed.values) + _AROUND
        body = exchange.request.document
        lengths = {name: max(body[name], room) for name in LENGTHS if name in body}
        whole = replace(exchange, request=exchange.request.as_whole(temperature=0, **lengths))
        left = self.choices_left(exchange)
        async with turns.of(exchange):
            for number, form in enumerate(left):
                document = await self._try(whole, form, closed.values)
                if document is not None:
                    self._left = keep(self._left, self._key(exchange), left[number:])
                    exchange.choosing = {"among": len(closed.values), "form": form}
                    return document
            document = await completion(whole, (await self._ask(whole, {}))[0])
        self._left = keep(self._left, self._key(exchange), ())
        log.warning("%s answers freely, it keeps to no set: %s were tried", exchange.route.model, ", ".join(left))
        return document

    async def _try(self, whole: Exchange, form: str, values: Sequence[str]) -> Piece | None:
        """None where it is refused, or passed over."""
        try:
            document = await completion(whole, (await self._ask(whole, CHOICE_FORMS[form](values)))[0])
        except Refusal as refusal:
            if refusal.status not in REFUSES:
                raise
            return None
        given = document["choices"][0] if document["choices"] else {}
        message = given.get("message") if isinstance(given, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        text = content.strip() if isinstance(content, str) else ""
        if form == "response_format":
            text = _without_quotes(text)
        if text not in values:
            return None
        choice = document["choices"][0]
        return {**document, "choices": [{**choice, "message": {**choice["message"], "content": text}}]}

    def choices_left(self, exchange: Exchange) -> tuple[str, ...]:
        """Forms that are known, or still to be tried, in which its server takes the set."""
        upstream = exchange.route.served.upstream
        return self._left.get(self._key(exchange), upstream.choice_forms if upstream else ())

    def _key(self, exchange: Exchange) -> Key:
        closed = exchange.route.agent.closed
        return (*server_of(exchange.route), closed.values if closed else ())


def _with_room(exchange: Exchange, structure: StructuredAnswers) -> Form:
    """The schema; where the request names no length, a process of ours gets the room to come to an end."""
    form, upstream = json_schema(structure.schema), exchange.route.served.upstream
    names_length = any(exchange.request.document.get(name) is not None for name in LENGTHS)
    if upstream is None or not exchange.route.served.is_ours or names_length or not structure.ends:
        return form
    return {**form, "max_tokens": upstream.context}


def _without_quotes(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""
