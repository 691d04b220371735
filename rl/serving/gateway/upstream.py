"""Calls the server of a version, and reads what it sends."""

import json
import logging
import re
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any, Final

import httpx
from django.conf import settings

from rl.models.traces import server_failed
from rl.serving.gateway.answer import Answer
from rl.serving.gateway.chat_request import find_media
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.refusals import Refusal, broken_upstream, not_ready, unsupported_content
from rl.serving.gateway.routing import Served

CONNECT_SECONDS: Final = 10
KEEP_ALIVE_SECONDS: Final = 4
"""Less than the five after which many servers close an idle connection: a request on a closing one would be lost."""
MOST_CONNECTIONS: Final = 1000
OURS: Final = (401, 404)
"""Statuses that speak of how the gateway calls (its key, the model's name) and not of what the client sent."""
_OF_CALLERS: Final = (401, 403, 408, 429)
"""Statuses that speak of who asks, and when."""
_OF_MEDIA: Final = re.compile("image|audio|vision|multi-?modal|modalit|mmproj", re.IGNORECASE)
"""What servers say in many statuses where a model reads texts alone."""
_OF_LENGTH: Final = re.compile("exceed_context_size|(?:maximum|available) context (?:length|size)", re.IGNORECASE)
"""What llama.cpp and vLLM say of a chat that is longer than the model's context."""
CONTEXT_LENGTH_EXCEEDED: Final = "context_length_exceeded"
"""OpenAI's code for that, by which programs know to shorten the chat."""
_DONE: Final = b"[DONE]"
Piece = dict[str, Any]
logging.getLogger("httpx").setLevel(logging.WARNING)  # else a line for each request


def new_client() -> httpx.AsyncClient:
    """Waits GATEWAY_TIMEOUT seconds for each piece of an answer; follows no redirect, and asks no proxy that the environment
    names: most servers are on this machine."""
    timeout = httpx.Timeout(settings.GATEWAY_TIMEOUT, connect=min(CONNECT_SECONDS, settings.GATEWAY_TIMEOUT), pool=None)
    limits = httpx.Limits(
        max_connections=MOST_CONNECTIONS, max_keepalive_connections=100, keepalive_expiry=KEEP_ALIVE_SECONDS
    )
    identity = {"Accept-Encoding": "identity"}
    return httpx.AsyncClient(timeout=timeout, limits=limits, headers=identity, trust_env=False)


async def ask(client: httpx.AsyncClient, exchange: Exchange, body: Mapping[str, Any]) -> httpx.Response:
    """An answer with 2xx whose body is still to be read; whoever gets it closes it. Raises Refusal."""
    served, context = exchange.route.served, exchange.trace_context
    url, headers = f"{served.reached.base_url}/chat/completions", context.headers() if context else {}
    return await _post(client, served, url, body, headers)


async def call(client: httpx.AsyncClient, served: Served, url: str, document: Mapping[str, Any]) -> Piece:
    """What another address of the version's server answers. Raises Refusal."""
    response = await _post(client, served, url, document, {})
    return _json(await _read(served, response))


async def _post(
    client: httpx.AsyncClient, served: Served, url: str, document: Mapping[str, Any], more: Mapping[str, str]
) -> httpx.Response:
    body = json.dumps({**document, **served.reached.fields}, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/json", **more, **served.reached.headers}
    try:
        response = await client.send(client.build_request("POST", url, content=body, headers=headers), stream=True)
        if response.is_success:
            return response
        try:
            raise _explain_refusal(served, response, await response.aread(), find_media(document.get("messages", ())))
        finally:
            await response.aclose()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _explain_loss(served, error) from None


async def completion(exchange: Exchange, response: httpx.Response) -> Piece:
    """As OpenAI writes it. Raises Refusal."""
    served = exchange.route.served
    document = _json(await _read(served, response))
    if not isinstance(document.get("choices"), list):
        raise broken_upstream(served.version, "did not answer with a chat completion")
    _check(served.version, document)
    return Answer().take(document)


async def _read(served: Served, response: httpx.Response) -> bytes:
    try:
        return await response.aread()
    except httpx.HTTPError as error:
        raise _explain_loss(served, error) from None
    finally:
        await response.aclose()


async def pieces(exchange: Exchange, response: httpx.Response) -> AsyncIterator[Piece]:
    """The chunks of an event stream; an empty one stands for a sign of life. Raises Refusal, too when the stream ends before
    the answer does."""
    version, is_done = exchange.route.served.version, False
    try:
        async for line in _lines(response):
            if line.startswith(b":"):
                yield {}
            if not line.startswith(b"data:"):
                continue
            if is_done := (data := line[5:].strip()) == _DONE:
                break
            yield _chunk(version, data)
    except httpx.HTTPError as error:
        raise _explain_loss(exchange.route.served, error) from None
    if not (exchange.answer.choices if is_done else exchange.answer.is_finished):
        raise broken_upstream(version, "ended the stream before the answer was complete")


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """Ends of lines are those of bytes: httpx would break a line at every U+2028 inside of a text."""
    rest = b""
    async for data in response.aiter_raw():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r")
    if rest:
        yield rest


def _chunk(version: str, data: bytes) -> Piece:
    """What is none, such as a ping, is a sign of life. Raises Refusal."""
    document = _json(data)
    _check(version, document)
    if isinstance(document.get("choices"), list):
        return document
    return {**document, "choices": []} if isinstance(document.get("usage"), dict) else {}


def _check(version: str, document: Piece) -> None:
    """Raises Refusal where the server says that it could not go on."""
    error = document.get("error") or (document if document.get("object") == "error" else None)
    choices = document.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and server_failed(choice.get("finish_reason")):
            error = error or choice.get("error") or f"it ended the answer by {choice['finish_reason']!r:.100}"
    if error:
        raise broken_upstream(version, f"broke off: {_message_of(error)}")


def _json(data: bytes) -> Piece:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _explain_loss(served: Served, error: Exception) -> Refusal:
    """A process of ours that is gone comes back."""
    version = served.version
    if served.is_ours and not isinstance(error, httpx.TimeoutException):
        return not_ready(version)
    if isinstance(error, httpx.ConnectTimeout):
        return broken_upstream(version, "cannot be reached: it does not take connections")
    if isinstance(error, httpx.TimeoutException):
        return broken_upstream(version, f"was silent for {settings.GATEWAY_TIMEOUT} seconds", 504)
    if isinstance(error, httpx.ConnectError):
        return broken_upstream(version, "cannot be reached")
    return broken_upstream(version, f"broke the connection ({type(error).__name__})")


def _explain_refusal(served: Served, response: httpx.Response, body: bytes, media: str) -> Refusal:
    """A 4xx is the client's, in OpenAI's shape. ``media``: where the request has a part that is not text."""
    document, status, version = _json(body), response.status_code, served.version
    error = document.get("error", document.get("detail", document.get("message")))
    message = _message_of(error) or _plain(body)
    wait = {"Retry-After": response.headers["retry-after"]} if "retry-after" in response.headers else {}
    if status == 503 and served.is_ours:  # it loads the model
        return not_ready(version)
    if media and status not in _OF_CALLERS and (status == HTTPStatus.NOT_IMPLEMENTED or _OF_MEDIA.search(message)):
        return unsupported_content(f"the server of {version} refused {media}: {message or 'no reason'}", media)
    if status in OURS or not 400 <= status < 500:
        return broken_upstream(
            version, f"answered {status}: {message or 'no reason'}", status if status == 503 else 502, wait
        )
    details = error if isinstance(error, dict) else {}
    code = details.get("code")
    if is_too_long := bool(_OF_LENGTH.search(f"{details.get('type')} {message}")):
        code = CONTEXT_LENGTH_EXCEEDED
    return Refusal(
        status,
        message or f"the server of {version} refused the request",
        kind="" if is_too_long else _text(details.get("type")),
        param=_text(details.get("param")) or ("messages" if is_too_long else None),
        code=code if isinstance(code, str) and code else None,
        headers=wait,
    )


def _plain(body: bytes) -> str:
    """What a server says that has a form of its own; of a page nothing."""
    text = body.decode(errors="replace").strip()
    return "" if text.startswith("<") or text in ("{}", "[]") else text[:1000]


def _message_of(error: object) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return _text(message)[:1000]


def _text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
