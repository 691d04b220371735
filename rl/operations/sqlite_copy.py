"""The SQLite database as one file, and back, by SQLite's own online backup: in one step each, while others use it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from django.db import connection

from rl.base.errors import BackupFailed, BadFile

FILE = "db.sqlite3"
_PATIENCE_SECONDS = 60
"""How long a write of somebody else may keep a restore waiting."""


def server_version() -> str:
    return sqlite3.sqlite_version


def size() -> int:
    """Bytes, about."""
    return _path().stat().st_size if _path().exists() else 0


def dump(target: Path) -> None:
    """Readers and writers go on meanwhile: in WAL mode a reader sees one state and holds nobody up. Raises BackupFailed
    when the copy, or the database itself, is damaged."""
    try:
        with closing(_connect(_path())) as source, closing(_connect(target)) as copy:
            _copy(source, copy)
            copy.execute("PRAGMA journal_mode=DELETE")
        verify(target)
    except (sqlite3.Error, BadFile) as error:
        raise BackupFailed(f"the database cannot be copied: {error}") from error


def verify(path: Path) -> None:
    """Raises BadFile."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as copy:
            (answer,) = copy.execute("PRAGMA quick_check(1)").fetchone()
            copy.execute("SELECT 1 FROM django_migrations LIMIT 1")  # an empty file is a sound database too
    except sqlite3.Error as error:
        raise BadFile(path.name, f"is not a sound SQLite database: {error}") from error
    if answer != "ok":
        raise BadFile(path.name, f"is not a sound SQLite database: {answer}")


def load(path: Path) -> None:
    """Replaces what the database holds, in one transaction: others see the old state or the new one. Raises
    BackupFailed; nothing is changed then."""
    connection.close()
    try:
        with closing(_connect(path)) as source, closing(_connect(_path())) as target:
            _copy(source, target)
    except sqlite3.Error as error:
        raise BackupFailed(
            f"the database cannot be replaced: {error}. Stop the site and the queue, and try again"
        ) from error


def _copy(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """In one step: in several, each write of others would begin it anew."""

    def give_up(status: int, *_: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):  # after the connection's timeout
            raise sqlite3.OperationalError("database is locked")

    source.backup(target, pages=-1, progress=give_up)


def _path() -> Path:
    return Path(connection.settings_dict["NAME"])


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_PATIENCE_SECONDS)
