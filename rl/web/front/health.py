"""``/healthz`` and ``/readyz``, for load balancers and container engines.

Both answer in plain text, under any host name, and say nothing to strangers but yes or no and why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final

from rl.serving.gateway.table import own_connection
from rl.web.front.answers import Answer

PATHS: Final = ("/healthz", "/readyz")
KNOWN_SECONDS: Final = 1.0
"""However many ask, it is looked once in this time."""
PATIENCE_SECONDS: Final = 5.0
TURN_SECONDS: Final = 2.0
"""Within which a request gets a thread of a site that is ready; where all are at work for a moment, it does."""


class Health:
    """``problem`` says why this process is not ready, or None; it is called in a thread of its own. ``has_turn`` says
    whether a request would get one of the site's threads within so many seconds."""

    def __init__(self, problem: Callable[[], str | None], has_turn: Callable[[float], Awaitable[bool]]) -> None:
        self._problem, self._has_turn = problem, has_turn
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._look: asyncio.Future[str | None] | None = None
        self._ended_at = 0.0

    async def answer(self, method: str, path: str) -> Answer:
        if method not in ("GET", "HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are allowed", Allow="GET, HEAD")
        problem = await self._known_problem() if path == "/readyz" else None
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, problem) if problem else _text(HTTPStatus.OK, "ok")

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _known_problem(self) -> str | None:
        look = self._current_look()
        await asyncio.wait({look}, timeout=PATIENCE_SECONDS)
        if not look.done():
            return f"the database has not answered for {PATIENCE_SECONDS:.0f} seconds"
        return look.result()

    def _current_look(self) -> asyncio.Future[str | None]:
        if self._look is None or (self._look.done() and time.monotonic() - self._ended_at > KNOWN_SECONDS):
            self._look = asyncio.create_task(self._find_problem())
            self._look.add_done_callback(self._note_end)
        return self._look

    async def _find_problem(self) -> str | None:
        look = asyncio.get_running_loop().run_in_executor(self._thread, self._find_in_thread)
        problem, has_turn = await asyncio.gather(look, self._has_turn(TURN_SECONDS))
        if problem or has_turn:
            return problem
        return f"no thread was free for {TURN_SECONDS:.0f} seconds: all of them work on other requests"

    def _find_in_thread(self) -> str | None:
        with own_connection():
            return self._problem()

    def _note_end(self, look: asyncio.Future[str | None]) -> None:
        self._ended_at = time.monotonic()


def _text(status: HTTPStatus, line: str, **headers: str) -> Answer:
    return Answer.of(status, f"{line}\n".encode(), "text/plain; charset=utf-8", headers)
