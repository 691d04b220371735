"""Every request has a number, and is counted and timed, whoever answers it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from prometheus_client import Counter, Histogram

from rl.base import logs

HEADER: Final = b"x-request-id"
REQUESTS = Counter("ratchet_requests", "Requests that were answered.", ["area", "method", "status"])
SECONDS = Histogram(
    "ratchet_request_seconds",
    "From a request's headers to the last byte of its answer.",
    ["area"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120, 600),
)
AREAS: Final = {
    "/v1/traces": "otlp",
    "/v1/": "gateway",
    "/api/": "api",
    "/admin/": "admin",
    "/static/": "static",
    "/healthz": "health",
    "/readyz": "health",
    "/metrics": "metrics",
}
"""By how the path begins; all else is ``pages``. Few, and fixed: each is a series of its own."""
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@contextmanager
def observe(scope: Any, send: Any) -> Iterator[Any]:
    """Gives the ``send`` to answer with. The status is ``none`` where the client left before there was one."""
    number = logs.request_number(_header(scope))
    began, status = time.perf_counter(), "none"

    async def pass_on(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = str(message["status"])
            named = any(name == HEADER for name, _ in message["headers"])
            more = [] if named else [(HEADER, number.encode())]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    try:
        with logs.about(logs.request_id, number):
            yield pass_on
    finally:
        area, method = area_of(scope["path"]), scope["method"]
        REQUESTS.labels(area, method if method in _METHODS else "other", status).inc()
        SECONDS.labels(area).observe(time.perf_counter() - began)


def area_of(path: str) -> str:
    return next((area for start, area in AREAS.items() if path.startswith(start)), "pages")


def _header(scope: Any) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == HEADER), "")
