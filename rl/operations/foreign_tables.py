"""A database that another program filled gets no tables of ours unless the operator says so.

OCD's ``.env`` names its own database by the variable that Ratchet reads too.
"""

from typing import Any, Final

from django.conf import settings
from django.core.management import CommandError
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder

from rl.base.errors import UsageError
from rl.models import Agent

NAMED: Final = 4
"""Tables that the refusal names."""


def foreign_tables(connection: BaseDatabaseWrapper) -> list[str]:
    """Tables that no installed app has, in their order."""
    known = {*connection.introspection.django_table_names(), MigrationRecorder.Migration._meta.db_table}
    return sorted({*connection.introspection.table_names()} - known)


def refuse_foreign_database(using: str, **signal: Any) -> None:
    """Django calls it before a migration. Raises CommandError where there are such tables and none of ours: once ours are
    there, somebody has meant it so."""
    connection = connections[using]
    if settings.DATABASE_IS_SHARED or Agent._meta.db_table in connection.introspection.table_names():
        return
    if tables := foreign_tables(connection):
        shown = ", ".join(tables[:NAMED]) + (", …" if len(tables) > NAMED else "")
        raise CommandError(
            f"the database {connection.settings_dict['NAME']} has tables of another program ({shown}) and none of Ratchet's "
            "and is left as it is. Name a database of Ratchet's own in DATABASE_URL, or allow this one with "
            "DATABASE_IS_SHARED=1",
            returncode=UsageError.exit_code,
        )
