"""Which errors say that the disk is full or the database gone; each is a real one."""

import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connection, connections, transaction
from django.db.utils import DatabaseErrorWrapper

from rl.faults import DATABASE_GONE, DISK_FULL, Fault, fault_of


def raised_by_sqlite(path: Path, work: Callable[[sqlite3.Connection], object], **options) -> Exception:
    """As Django raises it."""
    other = sqlite3.connect(path, isolation_level=None, timeout=0, **options)
    with pytest.raises(DatabaseError) as caught, DatabaseErrorWrapper(connections["default"]):
        work(other)
    other.close()
    return caught.value


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "db.sqlite3"
    with sqlite3.connect(path) as made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE one (two)")
    return path


sqlite_only = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="wraps errors of SQLite")
postgresql_only = pytest.mark.skipif("connection.vendor != 'postgresql'", reason="wraps errors of PostgreSQL")


@sqlite_only
def test_a_full_disk_under_sqlite(database: Path):
    def fill(other: sqlite3.Connection) -> None:
        other.execute("PRAGMA max_page_count = 2")
        other.execute("INSERT INTO one VALUES (zeroblob(1000000))")

    assert fault_of(raised_by_sqlite(database, fill)) == DISK_FULL


@sqlite_only
def test_a_busy_a_missing_and_a_read_only_database_of_sqlite(database: Path):
    lock = sqlite3.connect(database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    assert fault_of(raised_by_sqlite(database, lambda other: other.execute("BEGIN IMMEDIATE"))) == DATABASE_GONE
    lock.close()
    query_only = "INSERT INTO one VALUES (1)"
    read_only = f"file:{database}?mode=ro"
    assert fault_of(raised_by_sqlite(read_only, lambda other: other.execute(query_only), uri=True)) == DATABASE_GONE
    with pytest.raises(OperationalError) as caught, DatabaseErrorWrapper(connections["default"]):
        sqlite3.connect(database.parent / "nowhere" / "db.sqlite3")
    assert fault_of(caught.value) == DATABASE_GONE


@sqlite_only
def test_a_mistake_in_a_query_is_no_fault_of_the_machine(database: Path):
    assert fault_of(raised_by_sqlite(database, lambda other: other.execute("SELECT * FROM three"))) is None


@postgresql_only
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ("53100", DISK_FULL),
        ("57P01", DATABASE_GONE),
        ("53300", DATABASE_GONE),
        ("25006", DATABASE_GONE),
        ("40P01", DATABASE_GONE),
        ("55P03", DATABASE_GONE),
        ("23505", None),
        ("42P01", None),
        ("22001", None),
    ],
)
def test_states_of_postgresql(state: str, fault: Fault | None):
    with pytest.raises(DatabaseError) as caught, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"DO $$ BEGIN RAISE EXCEPTION 'so it is' USING ERRCODE = '{state}'; END $$")
    assert fault_of(caught.value) == fault


@postgresql_only
@pytest.mark.django_db(transaction=True)
def test_a_connection_to_postgresql_that_is_lost():
    with pytest.raises(DatabaseError) as caught, connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert fault_of(caught.value) == DATABASE_GONE
    connection.close()


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DISK_FULL),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), DISK_FULL),
        (OSError(errno.EFBIG, "File too large"), DISK_FULL),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), None),
        (IntegrityError("a duplicate"), None),
        (ValueError("a bug"), None),
    ],
)
def test_other_errors(error: Exception, fault: Fault | None):
    assert fault_of(error) == fault
