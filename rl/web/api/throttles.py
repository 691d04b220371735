"""Requests per minute and caller. A courtesy among honest clients, not a defence: put hard limits into the proxy."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.core.cache import cache
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from rl.models import ApiKey
from rl.web.client_address import client_address

WINDOW_SECONDS = 60


class RequestsPerMinute(BaseThrottle):
    """API_REQUESTS_PER_MINUTE for each secret key, and for each client address of a publishable one.

    Counts in Django's default cache. Where that is local memory, each web process counts for itself (n processes let n
    times as much through), and forgets the rarest callers when there are more than the cache holds (MAX_ENTRIES). An
    address is taken from X-Forwarded-For only as far as NUM_PROXIES says that it can be trusted.
    """

    def allow_request(self, request: Request, view: Any) -> bool:
        window = int(time.time()) // WINDOW_SECONDS
        return _count(f"api:{self._caller(request)}:{window}") <= settings.API_REQUESTS_PER_MINUTE

    def wait(self) -> float:
        """Seconds until the next window."""
        return WINDOW_SECONDS - int(time.time()) % WINDOW_SECONDS

    def _caller(self, request: Request) -> str:
        key = request.auth
        if isinstance(key, ApiKey) and key.kind == ApiKey.Kind.SECRET:
            return str(key.pk)
        # An address that a client makes up may hold anything; a cache key may not.
        address = "".join(c if c.isalnum() or c in ".:" else "_" for c in client_address(request))[:64]
        return f"{key.pk if isinstance(key, ApiKey) else 'none'}:{address}"


def _count(name: str) -> int:
    try:
        return cache.incr(name)
    except ValueError:  # nobody called in this minute yet
        if cache.add(name, 1, timeout=2 * WINDOW_SECONDS):
            return 1
    try:
        return cache.incr(name)
    except ValueError:  # thrown out of a full cache between the two calls
        return 1
