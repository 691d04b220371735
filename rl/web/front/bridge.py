"""Takes request bodies in whole, with a size limit, a deadline and a least rate, and gives what is there whole to Django's
WSGI handler, in a bounded pool of threads.

Django's own ASGI handler starts a thread for each request, and with it a connection to the database
(docs/decisions/front.md)."""

import asyncio
import contextvars
import os
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from io import BytesIO
from typing import IO, Any, Final, TypeVar

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

from rl.serving.gateway.streaming import unless_gone
from rl.web.front.answers import PASSES_ON, ClientLeft, HttpAnswer, RequestRefused, spool
from rl.web.front.following import Headers

Receive = Callable[[], Awaitable[Any]]
Keep = Callable[[bytes], Awaitable[None]]
"""Is given each piece of a body as it comes."""


async def collect(scope: Any, receive: Receive, most: int, take: Callable[[int], None]) -> bytes:
    """``take`` is called with the number of bytes that came. Raises as ``collect_by``."""
    body = bytearray()

    async def keep(piece: bytes) -> None:
        take(len(piece))
        body.extend(piece)

    await collect_by(keep, scope, receive, most)
    return bytes(body)


async def collect_by(keep: Keep, scope: Any, receive: Receive, most: int) -> None:
    """However it is framed. Raises RequestRefused (408, 413) and ClientLeft, and what ``keep`` raises."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" not in headers:
        expected = int(headers.get(b"content-length", 0))  # the server has refused what is not a number
        if expected == 0:
            return
        if expected > most:
            raise _too_large(most)
    try:
        await _receive_body(keep, receive, most)
    except TimeoutError:
        raise RequestRefused(
            HTTPStatus.REQUEST_TIMEOUT, "timeout", "the request body came too slowly", closes=True
        ) from None


async def _receive_body(keep: Keep, receive: Receive, most: int) -> None:
    """Raises TimeoutError for what stays below REQUEST_MIN_RATE after HEADER_TIMEOUT, or takes REQUEST_TIMEOUT."""
    start = asyncio.get_running_loop().time()
    received = 0
    async with asyncio.timeout(settings.HEADER_TIMEOUT) as patience:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            piece = message.get("body", b"")
            received += len(piece)
            if received > most:
                raise _too_large(most)
            await keep(piece)
            if not message.get("more_body", False):
                return
            earned = settings.HEADER_TIMEOUT + received / settings.REQUEST_MIN_RATE
            patience.reschedule(start + min(settings.REQUEST_TIMEOUT, earned))


def _too_large(most: int) -> RequestRefused:
    detail = f"the request body has more than {most} bytes; send it in parts"
    return RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", detail)


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


THREADS: Final = 10
"""Requests of the site that are worked on at the same time, in each process."""
MOST_WAITING: Final = 200
"""Requests that wait for a thread. More are refused: whoever came last would have gone before its turn."""
RETRY_SECONDS: Final = 2
Result = TypeVar("Result")


class Bridge:
    def __init__(self, django: WSGIHandler) -> None:
        self._django: Any = django
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="site")
        self._free = asyncio.Semaphore(THREADS)
        self._waiting = 0

    async def answer(self, scope: Any, receive: Receive, body: bytes | IO[bytes]) -> HttpAnswer:
        """Raises ClientLeft where the client did not wait for its turn, and RequestRefused (503)."""
        return await self.in_thread(receive, self._work, environ(scope, body))

    async def in_thread(self, receive: Receive, work: Callable[..., Result], *arguments: Any) -> Result:
        """Raises as ``answer``."""
        await self._turn(receive)
        try:
            context = contextvars.copy_context()
            return await asyncio.get_running_loop().run_in_executor(self._threads, context.run, work, *arguments)
        finally:
            self._free.release()

    async def has_turn(self, seconds: float) -> bool:
        """Whether a request that comes now gets a thread within this time."""
        try:
            async with asyncio.timeout(seconds), self._free:
                return True
        except TimeoutError:
            return False

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _turn(self, receive: Receive) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        if self._waiting >= MOST_WAITING:
            detail = "too many requests wait already"
            raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "busy", detail, retry_seconds=RETRY_SECONDS)
        self._waiting += 1
        try:
            if not await unless_gone(receive, self._free.acquire()):
                raise ClientLeft
        finally:
            self._waiting -= 1

    def _work(self, environment: dict[str, Any]) -> HttpAnswer:
        started: list[tuple[int, Headers]] = []

        def start_response(status: str, headers: Any, _: Any = None) -> None:
            named = [(name.lower().encode("latin-1"), value.strip().encode("latin-1")) for name, value in headers]
            started.append((int(status[:3]), named))

        response = self._django(environment, start_response)
        try:
            body = _open_stream(response) if response.streaming else response.content
            more = (getattr(response, name, None) for name in ("later", "question", "following"))
            return HttpAnswer(*started[0], body, *more)
        finally:
            response.close()


def _open_stream(response: Any) -> IO[bytes]:
    """A file of the disk is read from where it lies."""
    file = getattr(response, "file_to_stream", None)
    return os.fdopen(os.dup(file.fileno()), "rb") if file else spool(response)


def environ(scope: Any, body: bytes | IO[bytes]) -> dict[str, Any]:
    """As PEP 3333 has it; a body that is a file is read from its start. Without headers that it takes for others
    (X_Forwarded_For for X-Forwarded-For)."""
    host, port = scope.get("server") or ("localhost", 80)
    address, from_port = scope.get("client") or ("", "")
    stream = BytesIO(body) if isinstance(body, bytes) else body
    length = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    environment: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or 0),
        "REMOTE_ADDR": address,
        "REMOTE_PORT": str(from_port),
        "CONTENT_LENGTH": str(length),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": stream,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        PASSES_ON: True,
    }
    for raw, value in scope["headers"]:
        if b"_" in raw or raw in (b"content-length", b"transfer-encoding", b"expect"):
            continue
        name = raw.decode("latin-1").upper().replace("-", "_")
        name = name if name == "CONTENT_TYPE" else f"HTTP_{name}"
        text = value.decode("latin-1")
        environment[name] = f"{environment[name]},{text}" if name in environment else text
    return environment
