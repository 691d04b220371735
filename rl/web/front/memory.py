"""How much the bodies of requests that are being received or worked on may hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from django.conf import settings

from rl.web.front.refusals import Refused

SHARE: Final = 4
"""One address may hold this part of it."""
RETRY_SECONDS: Final = 2


class Memory:
    def __init__(self) -> None:
        self._held = 0
        self._of: Counter[str] = Counter()

    @contextmanager
    def share(self, address: str) -> Iterator[Callable[[int], None]]:
        """What it gives takes so many bytes more, until the block is left; it raises Refused (503)."""
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            largest = max(settings.DATA_UPLOAD_MAX_MEMORY_SIZE, settings.MAX_OTLP_REQUEST_BYTES)
            most = max(settings.MAX_HELD_BYTES, largest)
            if self._held + count > most or self._of[address] + count > max(most // SHARE, largest):
                detail = "the bodies of other requests take all the memory that there is for them"
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "busy", detail, retry_seconds=RETRY_SECONDS)
            taken += count
            self._held += count
            self._of[address] += count

        try:
            yield take
        finally:
            self._held -= taken
            self._of[address] -= taken
            if not self._of[address]:
                del self._of[address]
