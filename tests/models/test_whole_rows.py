from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, models

from rl.models import Agent, ApiKey, Feedback, Trace
from rl.models.whole_rows import read_rows
from tests.conftest import make_trace

pytestmark = pytest.mark.database


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def columns(row: models.Model) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


@pytest.fixture
def rows(agent: Agent, secret_key: str) -> None:
    about: dict[str, Any] = {"details": {"a": [1, 1.5, None, "ü"]}, "action": [], "cost": 0.5, "rewarded_at": NOON}
    trace = make_trace(agent, external_id="1", **about)
    said: dict[str, Any] = {
        "kind": "comparison",
        "other_trace": make_trace(agent, "?"),
        "choice": "left",
        "tags": ["x"],
    }
    Feedback.objects.create(agent=agent, trace=trace, rater="anna", rated_at=NOON, is_current=False, **said)


@pytest.mark.parametrize("model", [Agent, ApiKey, Feedback, Trace])
def test_rows_are_what_the_manager_gives(model: type[models.Model], rows: None):
    for usual in model._base_manager.all():
        (row,) = read_rows(model, "id = %s", [model._meta.pk.get_db_prep_value(usual.pk, connection)])
        assert columns(row) == columns(usual)
        assert {*map(type, columns(row).values())} == {*map(type, columns(usual).values())}
        assert (row._state.adding, row._state.db) == (False, "default")


def test_one_statement_reads_all_and_one_that_fits_nothing_gives_nothing(rows: None, django_assert_num_queries):
    with django_assert_num_queries(2):
        assert len([*read_rows(Trace, "response = %s", ["On its way."])]) == 2
        assert [*read_rows(Trace, "response = %s", ["%s"])] == []
