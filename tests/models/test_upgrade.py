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

from rl.models import Agent, ApiKey, Arm, Artifact, Deployment, Experiment, Feedback, Trace, TrainingRun
from tests.operations.installations import ENGINES, postgres_server
from tests.postgres import made

pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="the run on SQLite tries both"),
]
ALIAS = "upgrade"
FIRST, LAST = "0001_initial", "0029_instructions"
GONE = {"rl_evaluation": {"ratings_needed"}}
"""Columns of the first tables that are no more."""
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
SPECIFIC: dict[str, dict[str, Any]] = {
    "agent": {
        "name": "support-chat",
        "training_overrides": {"lora_r": 8},
        "reward_weights": {},
        "pair_type": "both",
        "preset": "small_gpu",
        "export_quantization": "q4_k_m",
        "description": "Grüße 👋",
        "context_length": 512,
    },
    "trace": {
        "prompt": [{"role": "user", "content": "Wo ist mein Paket? 📦"}],
        "tool_calls": [{"name": "look"}],
        "reasoning_steps": ["first"],
        "tasks": [],
    },
    "feedback": {
        "kind": "rating",
        "scale": "thumb",
        "value": 1.0,
        "raw_value": 1.0,
        "choice": "",
        "is_current": True,
        "tags": ["kind"],
        "retracts": None,
        "other_trace": None,
    },
    "deployment": {"alias": "champion", "target": "ollama"},
    "apikey": {"kind": "secret", "allowed_origins": [], "revoked_at": None, "digest": ApiKey.digest_of("sk_old")},
    "trainingrun": {"method": "dpo", "state": "succeeded", "config": {"lora_r": 8}, "options": {"source": "db"}},
    "experiment": {"state": "stopped"},
    "artifact": {"kind": "gguf"},
    "modelversion": {"parent": None, "stage": "deployed"},
}


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
    """One row in every table, those first that others point at; and a key of the other kind."""
    user = then.get_model("auth.User")
    user.objects.using(ALIAS).create(username="bob")
    waiting = list(then.get_app_config("rl").get_models())
    while waiting:
        model = waiting.pop(0)
        needs = {field.related_model._meta.label for field in model._meta.fields if field.related_model}
        if needs & {each._meta.label for each in waiting}:
            waiting.append(model)
            continue
        specific = SPECIFIC.get(model._meta.model_name, {})
        fields = [field for field in model._meta.fields if not isinstance(field, models.AutoField)]
        values = {
            field.name: specific.get(field.name, value_of(field, then))
            for field in fields
            if field.name not in specific
        } | specific
        row = model.objects.using(ALIAS).create(**values)
        moments = {field.name: MOMENT for field in fields if getattr(field, "auto_now_add", False)}
        if moments:
            model.objects.using(ALIAS).filter(pk=row.pk).update(**moments)
    then.get_model("rl.ApiKey").objects.using(ALIAS).create(
        name="page", kind="publishable", allowed_origins=["https://shop.example"], start="pk_", digest="page"
    )


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
    assert len(before) >= 14
    assert [table for table, rows in before.items() if not rows] == []

    migrated(database, LAST)
    after = contents(database)
    for table, rows in before.items():
        columns = rows[0].keys() - GONE.get(table, set())
        kept, wanted = ([{column: row[column] for column in columns} for row in of] for of in (after[table], rows))
        assert kept == wanted, table
    means_the_same()
    every_row_can_be_read()
    migrated(database, LAST)  # again: nothing is left to do
    assert contents(database) == after


def means_the_same() -> None:
    """To today's code."""

    def only(model: type[models.Model]) -> Any:
        return model.objects.using(ALIAS).get()

    keys = {key.kind: key for key in ApiKey.objects.using(ALIAS)}
    assert (keys["secret"].scopes, keys["publishable"].scopes) == (["ingest", "read"], [])
    assert {key.expires_at for key in keys.values()} == {None}
    assert set(ApiKey.valid().using(ALIAS)) == set(keys.values())

    agent, trace, rating = only(Agent), only(Trace), only(Feedback)
    assert agent.training_config().lora_r == 8
    assert (agent.preset, agent.gate_margin, agent.keep_versions, agent.deploy_target) == (
        "small_gpu",
        0.0,
        3,
        "ollama",
    )
    assert trace.question == "Wo ist mein Paket? 📦"
    assert (trace.reward, trace.reward_pending, trace.arm, trace.unit) == (None, True, None, "")
    assert (rating.value, rating.is_current, rating.trace_id, rating.user.username) == (1.0, True, trace.pk, "bob")
    in_use = only(Deployment)
    assert (in_use.alias, in_use.version.name, in_use.url, in_use.settings) == ("champion", "name-value", "", {})
    assert only(TrainingRun).version == only(Artifact).version == in_use.version
    trial, arm = only(Experiment), only(Arm)
    assert (trial.metric, trial.verdict, trial.ramp) == ("rating", "", [])
    assert (arm.weight, arm.is_control, arm.is_stopped, arm.requests) == (0.25, False, False, 0)


def every_row_can_be_read() -> None:
    for model in todays.get_app_config("rl").get_models():
        for row in model.objects.using(ALIAS):
            assert str(row)
            json.dumps({field.name: getattr(row, field.attname) for field in model._meta.fields}, default=str)


def test_the_newest_migration_is_the_one_that_is_tried():
    folder = Path(todays.get_app_config("rl").path) / "migrations"
    assert max(file.stem for file in folder.glob("0*.py")) == LAST
