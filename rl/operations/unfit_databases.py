"""Databases that get no tables of ours: one that another program filled, unless the operator says so, and one from before
the first release that stopped halfway.

OCD's ``.env`` names its own database by the variable that Ratchet reads too."""

from typing import Any, Final

from django.conf import settings
from django.core.management import CommandError
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder

from rl.base.errors import UsageError
from rl.models import Agent
from rl.operations import dumps

NAMED: Final = 4
"""Tables that the refusal names."""


def foreign_tables(connection: BaseDatabaseWrapper) -> list[str]:
    """Tables that no installed app has, in their order."""
    known = {*connection.introspection.django_table_names(), MigrationRecorder.Migration._meta.db_table}
    return sorted({*connection.introspection.table_names()} - known)


def refuse_unfit_database(using: str, **signal: Any) -> None:
    """Django calls it before a migration. Raises CommandError."""
    connection = connections[using]
    try:
        dumps.require_whole(dumps.migrations(connection))
        _require_own(connection)
    except UsageError as error:
        raise CommandError(str(error), returncode=error.exit_code) from error


def _require_own(connection: BaseDatabaseWrapper) -> None:
    """Raises UsageError where there are tables of others and none of ours: once ours are there, somebody has meant it so."""
    if settings.DATABASE_IS_SHARED or Agent._meta.db_table in connection.introspection.table_names():
        return
    if tables := foreign_tables(connection):
        shown = ", ".join(tables[:NAMED]) + (", …" if len(tables) > NAMED else "")
        raise UsageError(
            f"the database {connection.settings_dict['NAME']} has tables of another program ({shown}) and none of Ratchet's "
            "and is left as it is. Name a database of Ratchet's own in DATABASE_URL, or allow this one with "
            "DATABASE_IS_SHARED=1"
        )
