"""Answers that go on while what they tell of does: server-sent events, as WHATWG's HTML standard has them (9.2)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from rl.serving.gateway.streaming import unless_gone
from rl.serving.gateway.table import own_connection

Headers = list[tuple[bytes, bytes]]
"""Lower-case names."""
SIGN_OF_LIFE: Final = b":\n"
"""A comment, without an empty line: behind an ``id`` clients of OpenAI take that for an event."""
LOOK_SECONDS: Final = 1.0
LONGEST: Final = 3600.0
"""Seconds; whoever wants more comes again with the id of the last event."""
MOST: Final = 100
"""Answers of a process that go on at the same time."""
FULL: Final = "too many follow events already"


@dataclass(frozen=True, slots=True)
class Following:
    """What follows an answer that has begun."""

    more: Callable[[], tuple[bytes, bool]]
    """The events since the last call, and whether there may be others. Reads the database."""


class Followers:
    """However many follow: all look in one thread. A database that does not answer ends the answers that ask it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="followed")
        self._following = 0

    @property
    def is_full(self) -> bool:
        return self._following >= MOST

    async def follow(self, receive: Any, send: Any, headers: Headers, first: bytes, following: Following) -> None:
        self._following += 1
        try:
            await unless_gone(receive, self._send(send, headers, first, own_connection()(following.more)))
        finally:
            self._following -= 1

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _send(self, send: Any, headers: Headers, piece: bytes, more: Callable[[], tuple[bytes, bool]]) -> None:
        loop = asyncio.get_running_loop()
        unbounded = [(name, value) for name, value in headers if name != b"content-length"]
        await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": unbounded})
        end, goes_on = loop.time() + LONGEST, True
        while goes_on and loop.time() < end:
            await send({"type": "http.response.body", "body": piece or SIGN_OF_LIFE, "more_body": True})
            await asyncio.sleep(LOOK_SECONDS)
            piece, goes_on = await loop.run_in_executor(self._thread, more)
        await send({"type": "http.response.body", "body": piece})
