"""What a database still has of rows that were deleted: copies within its pages, and its write-ahead log.

SQLite's ``secure_delete`` blanks a row where it lies, and not the copies that stay behind when a page is split or put in
order: about one word in 200 was still there. So the whole file is written anew, and the log emptied."""

from typing import Any

from django.db import DatabaseError, connection, transaction

PATIENCE_SECONDS = 20
_AGAIN = "run this command again when nobody uses the site, or stop it first"
_POSTGRESQL = (
    "PostgreSQL keeps deleted rows in its files until VACUUM FULL, and in its write-ahead log: see docs/forgetting.md"
)


def erase_deleted() -> str:
    """Writes the SQLite file anew and empties its write-ahead log, while others read; writers wait, about ten seconds for
    600 MB. Returns what is left, and what to do; empty where nothing is."""
    if connection.vendor != "sqlite":
        return _POSTGRESQL
    if connection.in_atomic_block:
        return f"the database keeps copies of deleted rows until its transaction is over: {_AGAIN}"
    with connection.cursor() as cursor:
        try:
            cursor.execute("VACUUM")
            return (
                "" if empty_log(cursor) else f"the write-ahead log keeps it, because somebody reads from it: {_AGAIN}"
            )
        except DatabaseError as error:
            return f"the database file keeps copies of deleted rows ({error}): {_AGAIN}"


def erase_later() -> str:
    """Has the queue do it: what keeps the site's writers waiting is not for a page."""
    from django_q.tasks import async_task  # reads the queue's settings when imported

    if connection.vendor != "sqlite":
        return _POSTGRESQL
    transaction.on_commit(lambda: async_task("rl.tasks.erase_deleted"))
    return "the database keeps copies of deleted rows until the queue has written it anew, within a minute or so"


def empty_log(cursor: Any) -> bool:
    """False where somebody has read from it all the time, for PATIENCE_SECONDS."""
    cursor.execute(f"PRAGMA busy_timeout={PATIENCE_SECONDS * 1000}")
    try:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return cursor.fetchone()[0] == 0
    finally:
        cursor.execute("PRAGMA busy_timeout=0")  # backend.sqlite3 waits by itself
