"""The PostgreSQL database as one file, and back, by pg_dump's custom format."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from django.db import connection
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo

from rl.base.errors import BackupFailed, BadFile

FILE = "database.pgdump"
ASIDE = "ratchet_replaced"
"""The schema in which the tables that a restore replaces wait until the new ones are there."""
_LOCK_SECONDS = 10
_TABLES = """
    SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
    AND NOT relispartition ORDER BY relname
"""


def server_version() -> str:
    """Its major number."""
    with _connect() as database:
        return str(database.info.server_version // 10_000)


def size() -> int:
    """Bytes that it takes in the server; a dump is smaller."""
    with _connect() as database:
        row = database.execute("SELECT pg_database_size(current_database())").fetchone()
        return int(row[0]) if row else 0


def dump(target: Path) -> None:
    """One state of the database, without owners and rights. Raises BackupFailed."""
    require_matching("pg_dump")
    target.touch(mode=0o600)
    _run("pg_dump", "--format=custom", "--no-owner", "--no-acl", "--schema=public", f"--file={target}", _conninfo())


def verify(path: Path) -> None:
    """Whether pg_restore can read it here. Raises BadFile, or BackupFailed where there is no pg_restore."""
    require_matching("pg_restore")
    try:
        _run("pg_restore", "--list", str(path))
    except BackupFailed as error:
        raise BadFile(path.name, str(error)) from error


def load(path: Path) -> None:
    """Replaces all tables. The old ones wait in a schema of their own until the new ones are there, then go. Raises
    BackupFailed; the old tables are back then. After a kill in between they are in the schema ``ASIDE``."""
    connection.close()
    with _connect() as database:
        _move_tables(database, "public", ASIDE)
        try:
            _run(
                "pg_restore",
                "--single-transaction",
                "--exit-on-error",
                "--no-owner",
                "--no-acl",
                "--schema=public",
                f"--dbname={_conninfo()}",
                str(path),
            )
        except BackupFailed:
            _move_tables(database, ASIDE, "public")
            database.execute(f"DROP SCHEMA {ASIDE} CASCADE")
            raise
        database.execute(f"DROP SCHEMA {ASIDE} CASCADE")


def _move_tables(database: psycopg.Connection[Any], source: str, target: str) -> None:
    try:
        with database.transaction():
            database.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
            if target == ASIDE:
                database.execute(f"CREATE SCHEMA {ASIDE}")
            for (name,) in database.execute(_TABLES, [source]).fetchall():
                table = sql.Identifier(source, name)
                database.execute(sql.SQL("ALTER TABLE {} SET SCHEMA {}").format(table, sql.Identifier(target)))
    except psycopg.errors.DuplicateSchema as error:
        raise BackupFailed(
            f"an earlier restore was interrupted: the tables from before it are in the schema {ASIDE}. Look at them, and "
            f"drop it: DROP SCHEMA {ASIDE} CASCADE"
        ) from error
    except psycopg.errors.LockNotAvailable as error:
        raise BackupFailed("the tables are in use: stop the site, the queue and running trainings first") from error
    except psycopg.Error as error:
        raise BackupFailed(f"the tables cannot be moved aside: {error}") from error


@contextmanager
def _connect() -> Iterator[psycopg.Connection[Any]]:
    """Outside of Django's pool, which would hold its own locks."""
    try:
        database = psycopg.connect(_conninfo(), password=_parameters().get("password"), autocommit=True)
    except psycopg.Error as error:
        raise BackupFailed(f"the database does not answer: {str(error).strip()}") from error
    with database:
        yield database


def _parameters() -> dict[str, Any]:
    settings = connection.settings_dict
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    options = {name: value for name, value in settings["OPTIONS"].items() if name in known}
    named = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return options | {name: settings[key] for name, key in named.items() if settings[key]}


def _conninfo() -> str:
    """Without the password: the arguments of a process can be read by everybody on the machine."""
    return make_conninfo(**{name: value for name, value in _parameters().items() if name != "password"})


def require_matching(program: str) -> None:
    """Raises BackupFailed unless the program is there and not older than the server."""
    match = re.search(r"\) (\d+)", _run(program, "--version"))
    have, needed = match[1] if match else "0", server_version()
    if int(have) < int(needed):
        raise BackupFailed(
            f"{program} {have} is older than the server, PostgreSQL {needed}, and cannot read it: install "
            f"postgresql-client-{needed} (from apt.postgresql.org where your distribution has none), and put its "
            "programs first in PATH"
        )


def _run(program: str, *arguments: str) -> str:
    """Its output. Raises BackupFailed with what it said."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    if password := _parameters().get("password"):
        environment["PGPASSWORD"] = password
    try:
        done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, errors="replace")
    except FileNotFoundError:
        raise BackupFailed(
            f"{program} is not installed; on Debian and Ubuntu: apt install postgresql-client (not older than the server)"
        ) from None
    if done.returncode != 0:
        raise BackupFailed(f"{program} failed: {done.stderr.strip()[-1000:]}")
    return done.stdout
