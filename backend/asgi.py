"""The gateway and the site in one server: the gateway as ASGI, everything else as the same WSGI application as elsewhere."""

from __future__ import annotations

import os
from typing import Any

from a2wsgi import WSGIMiddleware
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
_django: Any = get_wsgi_application()

from rl.serving.gateway.app import application as gateway  # noqa: E402  models need Django's set-up

THREADS = 10
"""Requests of the site that are worked on at the same time, in each process."""
site = WSGIMiddleware(_django, workers=THREADS)


async def application(scope: Any, receive: Any, send: Any) -> None:
    path = scope.get("path", "")
    if scope["type"] == "lifespan" or path == "/v1/chat/completions" or f"{path}/".startswith("/v1/models/"):
        await gateway(scope, receive, send)
    else:
        await site(_as_wsgi_wants(scope), receive, send)


def _as_wsgi_wants(scope: Any) -> Any:
    """Without headers that WSGI takes for others (X_Forwarded_For for X-Forwarded-For): its own servers drop them too."""
    if scope["type"] != "http":
        return scope
    return {**scope, "headers": [(name, value) for name, value in scope["headers"] if b"_" not in name]}
