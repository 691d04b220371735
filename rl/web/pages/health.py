"""For load balancers and container engines. Both answer in plain text and tell strangers nothing but yes or no."""

from __future__ import annotations

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers. Touches no database: a slow one must not get the process killed."""
    return _text("ok")


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """The database answers and has every migration."""
    try:
        executor = MigrationExecutor(connection)
        waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Error:
        return _text("the database does not answer", 503)
    if waiting:
        return _text(f"{len(waiting)} migrations are not applied: run manage.py migrate", 503)
    return _text("ok")


def _text(line: str, status: int = 200) -> HttpResponse:
    return HttpResponse(f"{line}\n", status=status, content_type="text/plain; charset=utf-8")
