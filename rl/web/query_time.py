"""Queries over what is stored, which the database ends where they take too long."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import OperationalError, connection, transaction

from rl.base.errors import UsageError

SECONDS: Final = 1.5
_STEPS: Final = 10_000
"""Instructions that SQLite works off between two looks at the clock."""
_CANCELLED: Final = "57014"
_SET: Final = "set_config('statement_timeout', %s, true)"
"""Holds until the transaction ends."""


@contextmanager
def limited_time(what: str) -> Iterator[None]:
    """For reading only. Raises UsageError where what is done inside takes the database longer than SECONDS."""
    try:
        with _of_sqlite() if connection.vendor == "sqlite" else _of_postgresql():
            yield
    except OperationalError as error:
        cause = error.__cause__
        code = getattr(cause, "sqlite_errorcode", None) or getattr(cause, "sqlstate", None)
        if code not in (sqlite3.SQLITE_INTERRUPT, _CANCELLED):
            raise
        raise UsageError(f"{what} took longer than {SECONDS:g} seconds, and was ended") from None


@contextmanager
def _of_sqlite() -> Iterator[None]:
    connection.ensure_connection()
    until = time.monotonic() + SECONDS
    connection.connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        yield
    finally:
        connection.connection.set_progress_handler(None, 0)


@contextmanager
def _of_postgresql() -> Iterator[None]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SELECT current_setting('statement_timeout'), {_SET}", [f"{SECONDS * 1000:.0f}"])  # noqa: S608
        before, _ = cursor.fetchone()
        yield
        cursor.execute(f"SELECT {_SET}", [before])  # noqa: S608  a constant
