"""``/healthz`` and ``/readyz``, for load balancers and container engines: whether this process can do its work.

Both answer in plain text, under any host name, and say nothing to strangers but yes or no and why. Ready is where the
database is complete and takes a write, and so does DATA_DIR."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final

from django.conf import settings
from django.db import Error, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from rl.base import disk_space
from rl.base.background import end_all
from rl.faults import DISK_FULL, fault_of
from rl.serving.gateway.table import own_connection
from rl.web.front.answers import HttpAnswer

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

    async def answer(self, method: str, path: str) -> HttpAnswer:
        if method not in ("GET", "HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are allowed", Allow="GET, HEAD")
        problem = await self._known_problem() if path == "/readyz" else None
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, problem) if problem else _text(HTTPStatus.OK, "ok")

    async def stop(self) -> None:
        await end_all([self._look])
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _known_problem(self) -> str | None:
        if self._look is None or (self._look.done() and time.monotonic() - self._ended_at > KNOWN_SECONDS):
            self._look = asyncio.create_task(self._find_problem())
        look = self._look
        await asyncio.wait({look}, timeout=PATIENCE_SECONDS)
        if not look.done():
            return f"the database has not answered for {PATIENCE_SECONDS:.0f} seconds"
        return look.result()

    async def _find_problem(self) -> str | None:
        look = asyncio.get_running_loop().run_in_executor(self._thread, own_connection()(self._problem))
        try:
            problem, has_turn = await asyncio.gather(look, self._has_turn(TURN_SECONDS))
        finally:
            self._ended_at = time.monotonic()
        if problem or has_turn:
            return problem
        return f"no thread was free for {TURN_SECONDS:.0f} seconds: all of them work on other requests"


def _text(status: HTTPStatus, line: str, **headers: str) -> HttpAnswer:
    return HttpAnswer.of(status, f"{line}\n".encode(), "text/plain; charset=utf-8", headers)


PROBE_BYTES: Final = 65_536
_WRITES: Final = {
    # Each is on disk when it returns, and leaves no row.
    "sqlite": "PRAGMA user_version = {}",
    "postgresql": "SELECT pg_logical_emit_message(true, 'ratchet', '{}')",
}


def problem() -> str | None:
    """Why this process is not ready; None where it is."""
    return _problem_of_database() or _problem_of_files()


def _problem_of_database() -> str | None:
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if not missing:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(_WRITES[connection.vendor].format(int(time.time())))
    except Error as error:
        return "the disk of the database is full" if fault_of(error) == DISK_FULL else "the database does not answer"
    return f"{len(missing)} migrations are not applied: run manage.py migrate" if missing else None


def _problem_of_files() -> str | None:
    try:
        with tempfile.TemporaryFile(dir=settings.DATA_DIR) as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
        return "the disk of DATA_DIR is full" if disk_space.is_full(settings.DATA_DIR) else None
    except OSError as error:
        full = disk_space.tells_of_full_disk(error)
        return "the disk of DATA_DIR is full" if full else f"DATA_DIR cannot be written: {error.strerror}"
