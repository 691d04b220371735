"""Request bodies, whole, before anybody works on them: with a size limit, a deadline and a least rate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from django.conf import settings

from rl.web.front.refusals import ClientLeft, Refused

Receive = Callable[[], Awaitable[Any]]


async def collect(scope: Any, receive: Receive, most: int, take: Callable[[int], None]) -> bytes:
    """However it is framed; ``take`` is called with the number of bytes that came. Raises Refused (408, 413) and
    ClientLeft."""
    expected = _expected_bytes(scope)
    if expected == 0:
        return b""
    if expected is not None and expected > most:
        raise _too_large(most)
    try:
        return await _receive_body(receive, most, take)
    except TimeoutError:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, "timeout", "the request body came too slowly", closes=True) from None


async def _receive_body(receive: Receive, most: int, take: Callable[[int], None]) -> bytes:
    """Raises TimeoutError for what stays below REQUEST_MIN_RATE after HEADER_TIMEOUT, or takes REQUEST_TIMEOUT."""
    start = asyncio.get_running_loop().time()
    body = bytearray()
    async with asyncio.timeout(settings.HEADER_TIMEOUT) as patience:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            piece = message.get("body", b"")
            take(len(piece))
            body += piece
            if len(body) > most:
                raise _too_large(most)
            if not message.get("more_body", False):
                return bytes(body)
            earned = settings.HEADER_TIMEOUT + len(body) / settings.REQUEST_MIN_RATE
            patience.reschedule(start + min(settings.REQUEST_TIMEOUT, earned))


def _expected_bytes(scope: Any) -> int | None:
    """Bytes; None where the body comes in chunks."""
    length = 0
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            length = int(value)  # the server has refused what is not a number
    return length


def _too_large(most: int) -> Refused:
    detail = f"the request body has more than {most} bytes; send it in parts"
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", detail)


def replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body once more, for an application that reads it itself."""
    is_replayed = False

    async def receive_once() -> Any:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_once
