import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, models, transaction

from rl.collect import inserting
from rl.collect.inserting import RowMaker, insert_numbered, insert_rows
from rl.models import Agent, ApiKey, Feedback, ModelVersion, Trace
from tests.conftest import make_trace

PROMPT = [{"role": "user", "content": "Wo ist es? 🙂 it's 100 % \\ \t\n"}]
LATER = datetime(2026, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=2)))


def stored(model: type[models.Model], but: str) -> list[tuple[Any, ...]]:
    """All columns as they lie in the table, in order of their writing."""
    columns = [field.column for field in model._meta.concrete_fields if field.column not in (but, "created_at")]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(columns)} FROM {model._meta.db_table} ORDER BY {_order(model)}")
        return cursor.fetchall()


def _order(model: type[models.Model]) -> str:
    return "id" if model is Feedback else "external_id"


def some_traces(agent: Agent) -> list[Trace]:
    version = ModelVersion.objects.get_or_create(agent=agent, name="v1", base_model="tiny", feedback_count=1)[0]
    common: dict[str, Any] = {"agent": agent, "prompt": PROMPT, "prompt_key": "k", "occurred_at": LATER}
    return [
        Trace(external_id="1", **common),
        Trace(external_id="2", **{**common, "occurred_at": datetime(2026, 1, 2, tzinfo=UTC)}, response="Hier\n'\"\\N"),
        Trace(external_id="3", **common, details={"a": [1, 1.5, None, "ü"]}, state=[], action={}, rewards={"r": {}}),
        Trace(external_id="4", **common, model_version=version, cost=1, tokens_in=3, reward=0.5, rewarded_at=LATER),
        Trace(external_id="5", **common, tool_calls=({"tool_name": "x"},), action=False, state=0, session_id="\t"),
        Trace(external_id="6", **common, otel_trace_id="ab", unit="u", source="trl", reward_pending=False, state=""),
    ]


def some_feedback(trace: Trace) -> list[Feedback]:
    other, key = make_trace(trace.agent, "?"), ApiKey.create(name="server", kind="secret")[0]
    alice = User.objects.get_or_create(username="alice")[0]
    common: dict[str, Any] = {"agent": trace.agent, "trace": trace, "rater": "anna", "rated_at": LATER}
    return [
        Feedback(**common, kind=Feedback.Kind.RATING, scale=Feedback.Scale.STARS, raw_value=5, value=1, api_key=key),
        Feedback(**common, kind="comparison", other_trace=other, choice="left", user=alice, tags=["a'b", "%s"]),
        Feedback(**common, kind="correction", text="100 %\n", notes="ü", is_current=False, tags=("x",)),
        Feedback(**common, kind="outcome", metric="m", raw_value=-1.5),
    ]


@pytest.mark.database
@pytest.mark.parametrize("count", [1, 6])
def test_answers_are_stored_as_the_orm_stores_them_in_all_columns(agent: Agent, count: int):
    rows = some_traces(agent)[:count]
    insert_rows(rows)
    fast = stored(Trace, but="id")
    Trace.objects.all().delete()
    Trace.objects.bulk_create(some_traces(agent)[:count])
    assert fast == stored(Trace, but="id")


@pytest.mark.database
@pytest.mark.parametrize("few", [0, 32])
@pytest.mark.parametrize("count", [1, 4])
def test_feedback_is_stored_as_the_orm_stores_it_in_all_columns(
    trace: Trace, count: int, few: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(inserting, "_FEW", few)
    rows = some_feedback(trace)
    insert_numbered(rows[:count])
    fast = stored(Feedback, but="id")
    Feedback.objects.all().delete()
    Feedback.objects.bulk_create(rows_again(rows)[:count])
    assert fast == stored(Feedback, but="id")


def rows_again(rows: list[Feedback]) -> list[Feedback]:
    for row in rows:
        row.pk = None
        row._state.adding = True
    return rows


@pytest.mark.database
@pytest.mark.parametrize("few", [0, 32])
def test_rows_know_their_numbers_and_when_they_were_stored(trace: Trace, few: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inserting, "_FEW", few)
    insert_numbered(some_feedback(trace)[:1])
    rows = some_feedback(trace)[1:]
    insert_numbered(rows)
    assert [row.pk for row in rows] == list(Feedback.objects.order_by("id").values_list("pk", flat=True))[1:]
    for row in rows:
        here = Feedback.objects.get(pk=row.pk)
        assert (here.kind, here.created_at) == (row.kind, row.created_at)
        assert (row._state.adding, row._state.db) == (False, "default")


@pytest.mark.database
def test_where_one_row_is_refused_none_is_stored(agent: Agent):
    insert_rows(some_traces(agent)[2:3])
    with pytest.raises(IntegrityError), transaction.atomic():
        insert_rows(some_traces(agent))
    assert Trace.objects.count() == 1


@pytest.mark.database
def test_rows_that_are_stored_together_were_made_one_after_the_other(agent: Agent):
    insert_rows([Trace(agent=agent, prompt=PROMPT, prompt_key="k", external_id=str(number)) for number in range(50)])
    assert [*Trace.objects.order_by("created_at").values_list("external_id", flat=True)] == [*map(str, range(50))]
    assert len({*Trace.objects.values_list("created_at", flat=True)}) == 50


def test_nothing_is_stored_without_a_statement(django_assert_num_queries, db):
    with django_assert_num_queries(0):
        insert_rows([])
        insert_numbered([])


@pytest.mark.parametrize("model", [Trace, Feedback])
def test_a_made_row_is_what_the_constructor_makes(model: type[models.Model], agent: Agent):
    made, usual = RowMaker(model)({"agent_id": agent.pk}, agent=agent), model(agent=agent)
    assert {*vars(made)} == {*vars(usual)}
    for field in model._meta.concrete_fields:
        if field.attname not in ("id", "occurred_at", "rated_at"):
            assert getattr(made, field.attname) == getattr(usual, field.attname), field.attname
    assert (made.agent, made._state.adding, made._state.db) == (agent, True, None)


def test_no_two_made_rows_share_what_can_be_changed():
    first, second = RowMaker(Trace)({}), RowMaker(Trace)({"id": uuid.UUID(int=1)})
    first.details["a"] = 1
    assert (second.details, second.pk) == ({}, uuid.UUID(int=1))
    assert first.pk != second.pk
