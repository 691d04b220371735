"""Passes an upstream's event stream on, piece by piece as it comes, and records what was said."""

import asyncio
import json
import logging
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import httpx
from django.conf import settings
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rl.serving.dialects.chat import CHAT
from rl.serving.dialects.dialect import DATA, SIGN_OF_LIFE, event
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.refusals import Refusal, too_slow, unkept
from rl.serving.gateway.turns import Turns
from rl.serving.gateway.upstream import Piece, pieces
from rl.serving.gateway.writer import Recorder
from rl.serving.machine import note_request

NOTE_SECONDS: Final = 1.0
RECORD_SECONDS: Final = 0.25
"""How much of a stream is lost with a process that is killed, at most."""
Result = TypeVar("Result")
log = logging.getLogger(__name__)


class EventStream(Response):
    media_type = "text/event-stream"

    def __init__(self, exchange: Exchange, upstream: httpx.Response, recorder: Recorder, turns: Turns) -> None:
        """``turns``: the exchange has one, and leaves it here."""
        super().__init__(headers=exchange.headers())
        del self.headers["content-length"]
        self._exchange, self._upstream, self._recorder, self._turns = exchange, upstream, recorder, turns
        self._writer = exchange.request.dialect.stream(exchange.head())
        self._noted = 0.0
        self._lines: list[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  Starlette's
        answer = self._exchange.answer
        self._recorder.watch()
        try:
            await unless_gone(receive, self._run(send))
        finally:
            if self._timer:
                self._timer.cancel()
            answer.error = answer.error or ("" if answer.complete else "the client went away, or the site was stopped")
            self._recorder.record(self._exchange)
            try:
                await self._upstream.aclose()
            finally:
                self._turns.leave(self._exchange)

    async def _run(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        last = await self._pass_on(send)
        if error := await self._recorder.record_and_wait(self._exchange):
            last = self._fail(unkept(error))
        await send({"type": "http.response.body", "body": last})

    async def _pass_on(self, send: Send) -> bytes:
        """What is still to be sent, once the answer is recorded."""
        answer = self._exchange.answer
        try:
            try:
                async with asyncio.timeout(settings.GATEWAY_TIMEOUT):
                    async for piece in pieces(self._exchange, self._upstream):
                        piece = self._exchange.answer.take(piece)
                        written = self._write(piece)
                        if piece:
                            await self._record(piece, written)
                        if written:
                            await send({"type": "http.response.body", "body": written, "more_body": True})
                        now = time.monotonic()
                        if now - self._noted > NOTE_SECONDS:
                            self._noted = now
                            note_request()
            except TimeoutError:
                raise too_slow(self._exchange.route.served.version) from None
        except Refusal as fault:
            answer.error = fault.message
            self._exchange.failed = fault.blames_version
            if self._exchange.is_blind or not self._exchange.key.is_secret:
                log.warning("an answer broke off: %s", fault.message)
                fault = fault.without_names()
            return self._fail(fault)
        answer.complete = True
        return self._writer.end()

    def _write(self, piece: Piece) -> bytes:
        if not piece:
            return SIGN_OF_LIFE
        return _words_alone(piece) if self._exchange.is_blind else self._writer.write(piece)

    def _fail(self, fault: Refusal) -> bytes:
        return self._writer.fail(fault.status, fault.error)

    async def _record(self, piece: Piece, written: bytes) -> None:
        """The first one before it goes out, the others RECORD_SECONDS later at most. Raises Refusal."""
        if written and self._exchange.request.dialect is CHAT and not self._exchange.is_blind:
            line = written.removeprefix(DATA).rstrip()  # the same, which need not be written twice
        else:
            line = json.dumps(piece, separators=(",", ":")).encode()
        if self._lines is None:
            self._lines = []
            if error := await self._recorder.begin(self._exchange, line):
                raise unkept(error)
            return
        self._lines.append(line + b"\n")
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RECORD_SECONDS, self._write_lines)

    def _write_lines(self) -> None:
        self._recorder.add(self._exchange, b"".join(self._lines or ()))
        self._lines, self._timer = [], None


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result | None:
    """The result; None when the client went away first: the work is cancelled then. The request's body has been read."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_wait_until_gone(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _words_alone(piece: Piece) -> bytes:
    """The text of a chunk, and whether the limit of length ends it, which is the agent's. How a server names, counts, stamps
    and splits things differs from server to server."""
    choice = (piece.get("choices") or [{}])[0]
    choice = choice if isinstance(choice, dict) else {}
    delta = choice.get("delta")
    text = delta.get("content") if isinstance(delta, dict) else None
    end = {"finish_reason": "length"} if choice.get("finish_reason") == "length" else {}
    return event({"choices": [{"index": 0, "delta": {"content": text}, **end}]}) if text or end else SIGN_OF_LIFE
