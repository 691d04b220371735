"""The database as one file, whichever it is."""

from importlib import import_module
from types import ModuleType

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from rl.base.errors import UsageError

_MODULES = {"sqlite": "rl.operations.sqlite_copy", "postgresql": "rl.operations.postgresql_dump"}
ENGINES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_FURNITURE = ("django_", "axes_", "auth_permission", "sqlite_")
"""Tables, or their beginnings, that a database without any data has rows in, or has them by itself."""


def engine() -> ModuleType:
    """The module that dumps this database, with FILE, server_version, size, dump, verify and load."""
    return import_module(_MODULES[connection.vendor])


def migrations(database: BaseDatabaseWrapper = connection) -> list[str]:
    """``app.name`` of those that the database has."""
    return sorted(f"{app}.{name}" for app, name in MigrationRecorder(database).applied_migrations())


def unknown_migrations(names: list[str]) -> list[str]:
    """Those of the named migrations that this code neither has nor has another in the place of."""
    ours = MigrationLoader(None).disk_migrations
    known = {*ours, *(old for migration in ours.values() for old in migration.replaces)}
    return sorted(set(names) - {f"{app}.{name}" for app, name in known})


def require_whole(names: list[str]) -> None:
    """Raises UsageError where they are some of the migrations that one of ours stands for: the others are gone."""
    for (app, _), migration in MigrationLoader(None).disk_migrations.items():
        replaced = {f"rl.{name}" for _, name in migration.replaces}
        there = replaced & set(names)
        if app == "rl" and there and there != replaced:
            raise UsageError(
                f"the tables are of a Ratchet from before 0.1.0, as of {max(there)}, and this one goes on from "
                f"{max(replaced)}. Check out the release before, run 'manage.py migrate' there, and come back"
            )


def tables_with_rows() -> list[str]:
    """Tables with people's data in them; sessions, schedules and the like do not count."""
    names = [name for name in connection.introspection.table_names() if not name.startswith(_FURNITURE)]
    filled = []
    with connection.cursor() as cursor:
        for name in names:
            cursor.execute(f"SELECT 1 FROM {connection.ops.quote_name(name)} LIMIT 1")  # noqa: S608  its own names
            filled += [name] if cursor.fetchone() else []
    return filled
