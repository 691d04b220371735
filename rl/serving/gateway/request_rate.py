"""How often one may ask in a minute, and what answers say of it."""

import time
from collections import Counter
from collections.abc import Hashable
from typing import Any, Final

from django.conf import settings
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rl.serving.dialects.dialect import RequestRate
from rl.serving.dialects.known import dialect_at

WINDOW_SECONDS: Final = 60
RATE: Final = "ratchet.rate"
"""In the ASGI scope of a request that was counted: the RequestRate of whoever asks."""


class GatewayRequestRate:
    """API_REQUESTS_PER_MINUTE for each key or person, as in the API, but in the memory of this process: a shared cache would
    be asked over the network, and each worker counts for itself therefore."""

    def __init__(self) -> None:
        self._window = 0
        self._counts: Counter[Hashable] = Counter()

    def count(self, caller: Hashable) -> RequestRate:
        """Counts a request; returns how many are left until the next minute."""
        window = int(time.time()) // WINDOW_SECONDS
        if window != self._window:
            self._window = window
            self._counts.clear()
        self._counts[caller] += 1
        return RequestRate(settings.API_REQUESTS_PER_MINUTE, self._counts[caller], (window + 1) * WINDOW_SECONDS)


class RateHeaders:
    """Middleware that adds what is left to every answer and refusal of a request that was counted, in its dialect's
    headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.start" and (rate := scope.get(RATE)):
                message = {**message, "headers": [*message["headers"], *_headers(scope["path"], rate)]}
            await send(message)

        await self._app(scope, receive, pass_on if scope["type"] == "http" else send)


def _headers(path: str, rate: RequestRate) -> list[tuple[bytes, bytes]]:
    headers: dict[str, Any] = {**dialect_at(path).rate_headers(rate)}
    return [(name.encode(), str(value).encode()) for name, value in headers.items()]
