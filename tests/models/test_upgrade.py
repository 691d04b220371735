"""A database of the first release's tables, with data in each of them, becomes today's, and says the same."""

import copy
import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import environ
import pytest
from django.apps import apps as todays
from django.db import connection, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from tests.operations.installations import ENGINES, postgres_server
from tests.postgres import made

pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="the run on SQLite tries both"),
]
ALIAS = "upgrade"
FIRST, LAST = "0001_squashed_0028_tuning", "0033_follow_ups"
GONE: dict[str, set[str]] = {}
"""Table to those of its first columns that are no more."""
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
SPECIFIC: dict[str, dict[str, Any]] = {
    "feedback": {"kind": "rating", "value": 1.0},
    "golditem": {"other_trace": None, "value": 1.0, "choice": ""},
    "labelproposal": {"confidence": 0.75},
}
"""What constraints demand."""


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker) -> Iterator[BaseDatabaseWrapper]:
    """Empty, under an alias of its own."""
    with ExitStack() as stack:
        stack.enter_context(django_db_blocker.unblock())
        if request.param == "sqlite":
            place = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "old.sqlite3", "OPTIONS": {}}
        else:
            url = stack.enter_context(made(postgres_server()))
            place = {**environ.Env.db_url_config(url), "OPTIONS": {}}
        connections.databases[ALIAS] = {**copy.deepcopy(connections["default"].settings_dict), **place}
        yield connections[ALIAS]
        connections[ALIAS].close()
        del connections[ALIAS], connections.databases[ALIAS]


def migrated(database: BaseDatabaseWrapper, name: str) -> Any:
    """The models as they were then."""
    executor = MigrationExecutor(database)
    executor.migrate([("rl", name)])
    return executor.loader.project_state(("rl", name)).apps


def value_of(field: models.Field, then: Any) -> Any:
    """Unlike any default."""
    if isinstance(field, models.ForeignKey):
        owner = then.get_model(field.related_model._meta.label)
        return owner.objects.using(ALIAS).order_by("pk").first()
    if field.choices:
        return field.choices[-1][0]
    kinds = {
        models.JSONField: {"ä": [1, 0.5, None, "x"]},
        models.BooleanField: not field.default,
        models.DateTimeField: MOMENT,
        models.FloatField: 0.25,
        models.IntegerField: 7,
        models.UUIDField: uuid.UUID(int=12345),
        models.CharField: f"{field.name}-value"[: field.max_length or None],
        models.TextField: "line\nline 👋",
    }
    return next(value for kind, value in kinds.items() if isinstance(field, kind))


def filled(then: Any) -> None:
    """One row in every table, those first that others point at."""
    then.get_model("auth.User").objects.using(ALIAS).create(username="bob")
    waiting = list(then.get_app_config("rl").get_models())
    while waiting:
        model = waiting.pop(0)
        needs = {field.related_model._meta.label for field in model._meta.fields if field.related_model}
        if needs & {each._meta.label for each in waiting}:
            waiting.append(model)
            continue
        fields = [field for field in model._meta.fields if not isinstance(field, models.AutoField)]
        specific = SPECIFIC.get(model._meta.model_name, {})
        model.objects.using(ALIAS).create(**{field.name: value_of(field, then) for field in fields} | specific)


def contents(database: BaseDatabaseWrapper) -> dict[str, list[dict[str, Any]]]:
    """Every row of our tables, by column, as the database itself tells it."""
    found = {}
    with database.cursor() as cursor:
        for table in database.introspection.table_names(cursor):
            if table.startswith("rl_"):
                cursor.execute(f'SELECT * FROM "{table}" ORDER BY 1')
                columns = [column.name if hasattr(column, "name") else column[0] for column in cursor.description]
                found[table] = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
    return found


def test_every_row_of_the_first_tables_is_there_with_every_value(database: BaseDatabaseWrapper):
    filled(migrated(database, FIRST))
    before = contents(database)
    assert [table for table, rows in before.items() if not rows] == []

    # As it is where the migrations that are one now were made: they are known, and the one is not.
    MigrationRecorder(database).record_unapplied("rl", FIRST)
    migrated(database, LAST)
    after = contents(database)
    for table, rows in before.items():
        columns = rows[0].keys() - GONE.get(table, set())
        kept, wanted = ([{column: row[column] for column in columns} for row in of] for of in (after[table], rows))
        assert kept == wanted, table
    every_row_can_be_read()
    migrated(database, LAST)  # again: nothing is left to do
    assert contents(database) == after


def every_row_can_be_read() -> None:
    for model in todays.get_app_config("rl").get_models():
        for row in model.objects.using(ALIAS):
            assert str(row)
            json.dumps({field.name: getattr(row, field.attname) for field in model._meta.fields}, default=str)


def test_the_newest_migration_is_the_one_that_is_tried():
    folder = Path(todays.get_app_config("rl").path) / "migrations"
    assert max(file.stem for file in folder.glob("0*.py")) == LAST
