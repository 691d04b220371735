"""A database for a benchmark that measures what is stored, and the rows that it stores without help."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.core.management import call_command
from django.db import connection, connections, models, transaction
from django.db.backends.sqlite3.base import DatabaseWrapper
from django.test.utils import override_settings

from rl.models import Agent, Feedback, Trace

AT_ONCE: Final = 500
"""Rows a transaction."""
ANSWERS: Final = 3000
SHORT: Final = 60
_NAME: Final = "ratchet_benchmark_speed"
_OPTIONS: Final = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL;PRAGMA foreign_keys=ON;"}


def count_answers(rounds: int) -> int:
    """A single round is for equality, not for times."""
    return ANSWERS if rounds > 1 else SHORT


@contextmanager
def database(folder: Path) -> Iterator[None]:
    """An empty one: SQLite's in the folder, or on the server of DATABASE_URL. Nothing remembers its statements."""
    before = connection.settings_dict["NAME"]
    in_folder = connection.vendor == "sqlite"
    connection.settings_dict["TEST"]["NAME"] = str(copy_empty(folder)) if in_folder else _NAME
    with override_settings(DEBUG=False, API_REQUESTS_PER_MINUTE=1_000_000):
        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False, keepdb=in_folder)
        try:
            yield
        finally:
            connection.creation.destroy_test_db(before, verbosity=0)


@contextmanager
def sqlite_site(folder: Path) -> Iterator[None]:
    """An empty SQLite database and data directory, whatever the settings name."""
    with _on_sqlite(copy_empty(folder)), override_settings(DATA_DIR=folder):
        yield


def copy_empty(folder: Path) -> Path:
    """An empty SQLite database, whose tables are made once for all workloads of this process."""
    return Path(shutil.copyfile(Path(_migrated().name, "db.sqlite3"), folder / "db.sqlite3"))


@cache
def _migrated() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="ratchet-speed-empty-")
    with _on_sqlite(Path(folder.name, "db.sqlite3")), override_settings(DATA_DIR=folder.name):
        call_command("migrate", verbosity=0)
    return folder


@contextmanager
def _on_sqlite(file: Path) -> Iterator[None]:
    usual = connections["default"]
    of_its_own = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file), "OPTIONS": _OPTIONS}
    connections["default"] = DatabaseWrapper({**usual.settings_dict, **of_its_own}, "default")
    try:
        yield
    finally:
        connections["default"].close()
        connections["default"] = usual


def sum_up(agent: Agent) -> float:
    """Of what the agent has: the same for the same answers and ratings, whatever their ids."""
    traces = Trace.objects.filter(agent=agent).order_by()
    ratings = Feedback.objects.filter(agent=agent, is_current=True).order_by()
    sizes = traces.aggregate(all=models.Sum(models.functions.Length("response")), count=models.Count("pk"))
    values = ratings.aggregate(all=models.Sum("value"), count=models.Count("pk"))
    return float((sizes["all"] or 0) + sizes["count"] + (values["all"] or 0) * 1000 + values["count"])


class Ready:
    """Rows as the driver takes them: what is left to do is to insert them."""

    def __init__(self, rows: Sequence[models.Model]) -> None:
        columns = [field for field in rows[0]._meta.concrete_fields if not isinstance(field, models.AutoField)]
        names = ", ".join(str(column.column) for column in columns)
        values = ", ".join(["%s"] * len(columns))
        self.statement = f"INSERT INTO {rows[0]._meta.db_table} ({names}) VALUES ({values})"
        self.values = [tuple(_as_stored(row, column) for column in columns) for row in rows]


def _as_stored(row: models.Model, column: models.Field) -> Any:
    return column.get_db_prep_save(column.pre_save(row, add=True), connection)


def insert_ready(traces: Ready, ratings: Ready) -> None:
    """Both of as many rows."""
    for start in range(0, len(traces.values), AT_ONCE):
        with transaction.atomic(), connection.cursor() as cursor:
            for ready in (traces, ratings):
                cursor.executemany(ready.statement, ready.values[start : start + AT_ONCE])


def insert_by_orm(traces: Sequence[Trace], ratings: Sequence[Feedback]) -> None:
    for start in range(0, len(traces), AT_ONCE):
        with transaction.atomic():
            Trace.objects.bulk_create(traces[start : start + AT_ONCE])
            Feedback.objects.bulk_create(ratings[start : start + AT_ONCE])
