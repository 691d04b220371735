"""Faults of the machine that are nobody's mistake and pass: a full disk, a database that is gone or busy.

SQLite's result codes (sqlite.org/rescode.html) and PostgreSQL's SQLSTATEs say which.

Imports: base; Django."""

import sqlite3
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from django.db import Error, InterfaceError, OperationalError

from rl.base.disk_space import tells_of_full_disk


@dataclass(frozen=True, slots=True)
class Fault:
    status: HTTPStatus
    code: str
    detail: str
    retry_seconds: int
    """Seconds after which a client may try again."""


DISK_FULL: Final = Fault(
    HTTPStatus.INSUFFICIENT_STORAGE, "disk_full", "the disk is full: nothing was stored; send it again later", 30
)
DATABASE_GONE: Final = Fault(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "database_unavailable",
    "the database does not answer, or is busy: nothing was stored; send it again",
    5,
)
_SQLITE_FULL: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
_SQLITE_GONE: Final = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
)
_POSTGRESQL_FULL: Final = "53100"
_POSTGRESQL_GONE: Final = ("08", "53", "57P", "58", "25006", "40", "55P03", "57014")
"""Beginnings of SQLSTATEs: connections, resources, shutdown, system errors, read-only, deadlocks, locks, time limits."""


def fault_of(error: BaseException) -> Fault | None:
    """None for everything else: what is wrong with the request, or with us."""
    if tells_of_full_disk(error):
        return DISK_FULL
    if not isinstance(error, Error):
        return None
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_OK)
        return DISK_FULL if code in _SQLITE_FULL else DATABASE_GONE if code & 0xFF in _SQLITE_GONE else None
    state = getattr(cause, "sqlstate", None)
    if state:
        full, gone = state == _POSTGRESQL_FULL, state.startswith(_POSTGRESQL_GONE)
        return DISK_FULL if full else DATABASE_GONE if gone else None
    # psycopg speaks of a connection that is lost or cannot be had without a state.
    return DATABASE_GONE if cause is not None and isinstance(error, (OperationalError, InterfaceError)) else None
