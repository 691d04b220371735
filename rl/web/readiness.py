"""Whether this process can do its work: the database is complete and takes a write, and so does DATA_DIR."""

from __future__ import annotations

import tempfile
import time
from typing import Final

from django.conf import settings
from django.db import Error, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from rl.base import disk_space
from rl.faults import DISK_FULL, fault_of

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
            _write()
    except Error as error:
        return "the disk of the database is full" if fault_of(error) == DISK_FULL else "the database does not answer"
    return f"{len(missing)} migrations are not applied: run manage.py migrate" if missing else None


def _write() -> None:
    """Raises Error."""
    statement = _WRITES[connection.vendor].format(int(time.time()))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def _problem_of_files() -> str | None:
    try:
        with tempfile.TemporaryFile(dir=settings.DATA_DIR) as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
        return "the disk of DATA_DIR is full" if disk_space.is_full(settings.DATA_DIR) else None
    except OSError as error:
        full = disk_space.tells_of_full_disk(error)
        return "the disk of DATA_DIR is full" if full else f"DATA_DIR cannot be written: {error.strerror}"
