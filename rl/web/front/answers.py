"""Answers that are whole before their first byte goes out, so that a slow reader keeps nobody busy; and refusals of requests
that Django never sees: too large, too slow, too many."""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, Self
from uuid import UUID

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse

from rl.base.background import end_all
from rl.models import TrainingRun
from rl.serving.dialects.chat import CHAT
from rl.serving.gateway.app import BLIND_ID
from rl.serving.gateway.chat_request import SESSION_HEADER
from rl.serving.gateway.gateway import CALLER
from rl.serving.gateway.routing import KnownKey
from rl.serving.gateway.table import own_connection
from rl.web.api.problems import MEDIA_TYPE, document
from rl.web.front.following import Following, Headers

LOOK_SECONDS: Final = 1.0
LONGEST_WAIT: Final = 600.0
"""Seconds that ``?wait=true`` holds an answer."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Later:
    """What an answer becomes when ``run`` or ``work`` has ended; its headers stay."""

    run: int
    render: Callable[[], tuple[int, bytes]]
    """Status and body as things are then. Reads the database."""
    work: Callable[[], Coroutine[Any, Any, bool]] | None = None
    """What is waited for in the place of a run, in no thread; it is cancelled when the client leaves."""


class EndsOfRuns:
    """However many wait: one query a second, in one thread. It stops when nobody waits."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="runs")
        self._awaited: defaultdict[int, set[asyncio.Future[None]]] = defaultdict(set)
        self._looking: asyncio.Task[None] | None = None

    async def wait(self, run: int) -> bool:
        """Waits for the run; returns whether it has ended, False after LONGEST_WAIT."""
        end = asyncio.get_running_loop().create_future()
        self._awaited[run].add(end)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            await asyncio.wait({end}, timeout=LONGEST_WAIT)
            return end.done()
        finally:
            self._awaited[run].discard(end)
            if not self._awaited[run]:
                del self._awaited[run]

    async def stop(self) -> None:
        await end_all([self._looking])
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _look(self) -> None:
        while self._awaited:
            await asyncio.sleep(LOOK_SECONDS)
            awaited = list(self._awaited)
            active = await asyncio.get_running_loop().run_in_executor(self._thread, _active, awaited)
            for run in set(awaited) - active:
                for end in self._awaited.get(run, ()):
                    if not end.done():
                        end.set_result(None)


def _active(runs: Collection[int]) -> set[int]:
    """Those of the runs that go on; all of them where the database does not answer."""
    try:
        with own_connection():
            going_on = TrainingRun.objects.filter(pk__in=runs, state__in=TrainingRun.ACTIVE)
            return set(going_on.values_list("pk", flat=True))
    except DatabaseError as error:
        log.warning("it cannot be looked whether runs have ended: %s", error)
        return set(runs)


PASSES_ON: Final = "ratchet.passes_questions_on"
"""In the WSGI environment of a server that has a gateway."""
_NO_GATEWAY: Final = "this server passes no questions on; start the site with: python3 manage.py serve"


@dataclass(frozen=True, slots=True)
class GatewayQuestion:
    caller: KnownKey
    body: bytes
    """A chat completion, as OpenAI's clients ask for it."""
    session_id: str
    """ASCII."""
    blind_id: UUID | None = None
    """The id of an answer whose version nobody may learn from it."""

    def scope(self, scope: Any) -> Any:
        """The gateway's request in the place of the site's; nothing that the browser sent is left in it."""
        headers = [(b"content-type", b"application/json"), (SESSION_HEADER.encode(), self.session_id.encode())]
        address = {"path": CHAT.path, "raw_path": CHAT.path.encode(), "query_string": b""}
        blind = {BLIND_ID: self.blind_id} if self.blind_id else {}
        return {**scope, **address, "headers": headers, CALLER: self.caller, **blind}


class _HandedOver(HttpResponse):
    def __init__(self, question: GatewayQuestion) -> None:
        super().__init__()
        self.question = question


def hand_over(request: HttpRequest, question: GatewayQuestion) -> HttpResponse:
    if not request.META.get(PASSES_ON):
        return JsonResponse({"error": _NO_GATEWAY}, status=HTTPStatus.SERVICE_UNAVAILABLE)
    return _HandedOver(question)


class _WhenDone(JsonResponse):
    def __init__(self, later: Later) -> None:
        super().__init__({})
        self.later = later


def when_done(request: HttpRequest, work: Callable[[], Coroutine[Any, Any, bool]], document: Callable[[], Any]) -> Any:
    """What ``document`` gives, as JSON, after ``work``: no thread waits for that, but where the site is served without its
    front."""
    if request.META.get(PASSES_ON):
        return _WhenDone(Later(0, lambda: (HTTPStatus.OK, json.dumps(document()).encode()), work))
    asyncio.run(work())
    return JsonResponse(document())


PIECE: Final = 65_536
"""Bytes that are handed to the connection at a time; the next ones follow when these are on their way."""
IN_MEMORY: Final = 1_048_576
"""Bytes of a streaming response; what is longer waits in a file."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    headers: Headers
    body: bytes | IO[bytes]
    later: Later | None = None
    """What is answered later, where the client wants to wait."""
    question: GatewayQuestion | None = None
    """What the gateway answers in the place of this."""
    following: Following | None = None
    """What is sent in the place of the body, as it comes."""

    def with_body(self, status: int, body: bytes) -> Self:
        length = (b"content-length", str(len(body)).encode())
        headers = [length if name == length[0] else (name, value) for name, value in self.headers]
        return type(self)(status, headers, body)

    @classmethod
    def of(cls, status: int, body: bytes, media_type: str, more: Mapping[str, str] | None = None) -> Self:
        headers = {
            "Content-Type": media_type,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            **(more or {}),
        }
        return cls(status, [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()], body)


def spool(pieces: Any) -> IO[bytes]:
    """What an iterable of bytes gives, from its start; whoever reads it closes it."""
    held: Any = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
    try:
        for piece in pieces:
            held.write(piece)
        held.seek(0)
    except BaseException:
        held.close()
        raise
    return held


async def send_answer(send: Any, answer: HttpAnswer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    body = answer.body
    if not isinstance(body, bytes):
        with body:
            while piece := body.read(PIECE):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    start = 0
    while len(body) - start > PIECE:
        await send({"type": "http.response.body", "body": body[start : start + PIECE], "more_body": True})
        start += PIECE
    await send({"type": "http.response.body", "body": body[start:] if start else body})


class RequestRefused(Exception):
    """Answered with a problem document (RFC 9457)."""

    def __init__(
        self, status: HTTPStatus, code: str, detail: str, *, retry_seconds: int = 0, closes: bool = False
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.retry_seconds = status, code, detail, retry_seconds
        self.closes = closes
        """The connection is of no use afterwards: the rest of the request may still come."""

    @property
    def headers(self) -> dict[str, str]:
        wait = {"Retry-After": str(self.retry_seconds)} if self.retry_seconds else {}
        return {**wait, **({"Connection": "close"} if self.closes else {})}

    def answer(self) -> HttpAnswer:
        problem = document(self.code, self.status, self.detail)
        return HttpAnswer.of(self.status, json.dumps(problem).encode(), MEDIA_TYPE, self.headers)


class ClientLeft(Exception):
    """Nobody is there to answer."""
