"""Requests per minute and caller."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable
from typing import Final

from django.conf import settings

WINDOW_SECONDS: Final = 60


class RequestsPerMinute:
    """API_REQUESTS_PER_MINUTE for each key or person, as in the API, but in the memory of this process: a shared cache would
    be asked over the network, and each worker counts for itself therefore."""

    def __init__(self) -> None:
        self._window = 0
        self._counts: Counter[Hashable] = Counter()

    def wait(self, caller: Hashable) -> int:
        """Counts a request; 0, or the seconds until the next one is taken."""
        now = int(time.time())
        if now // WINDOW_SECONDS != self._window:
            self._window = now // WINDOW_SECONDS
            self._counts.clear()
        self._counts[caller] += 1
        return WINDOW_SECONDS - now % WINDOW_SECONDS if self._counts[caller] > settings.API_REQUESTS_PER_MINUTE else 0
