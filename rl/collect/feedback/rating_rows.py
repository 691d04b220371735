"""The statements of a rating, written out: composing them anew for each rating takes ten times as long as running them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections, models

from rl.models import Feedback, Trace

Target = tuple[Any, str]
"""Trace and rater."""


class RatedTrace(NamedTuple):
    agent_id: int
    reward_pending: bool


def target_of(event: Feedback) -> Target:
    return event.trace_id, event.rater


def lock_traces(ids: Collection[UUID]) -> dict[UUID, RatedTrace]:
    """Those that are there. Whoever writes what was said about them, or their rewards, waits until the transaction ends."""
    # One order for all writers: two of them with the same traces wait for each other instead of deadlocking.
    lock = " FOR NO KEY UPDATE" if connection.features.has_select_for_no_key_update else ""
    rows = fetch(
        f"SELECT id, agent_id, reward_pending FROM rl_trace WHERE id IN ({placeholders(ids)}) ORDER BY id{lock}",
        _as_stored(ids),
    )
    return {_PK.to_python(pk): RatedTrace(agent, bool(pending)) for pk, agent, pending in rows}


def newest_ratings(targets: Collection[Target]) -> dict[Target, Feedback]:
    """The last rating of each, current or retracted. The traces are locked."""
    traces, raters = {trace for trace, _ in targets}, {rater for _, rater in targets}
    newest = fetch(
        f"SELECT {_ALL} FROM rl_feedback WHERE id IN ("
        f"SELECT MAX(id) FROM rl_feedback WHERE trace_id IN ({placeholders(traces)}) AND rater IN ({placeholders(raters)}) "
        "AND kind = 'rating' GROUP BY trace_id, rater)",
        [*_as_stored(traces), *raters],
    )
    return {target_of(event): event for event in _events(newest)} if newest else {}


def _events(rows: Sequence[tuple[Any, ...]]) -> Iterator[Feedback]:
    """Events made of whole rows, as Django's own queries make them."""
    fields = Feedback._meta.concrete_fields
    compiler = Feedback.objects.all().query.get_compiler(connection=connection)
    converters = compiler.get_converters([field.get_col(Feedback._meta.db_table) for field in fields])
    for row in compiler.apply_converters(rows, converters):
        yield Feedback.from_db(connection.alias, [field.attname for field in fields], row)


def supersede(ids: Collection[int]) -> None:
    if ids:
        _run(f"UPDATE rl_feedback SET is_current = FALSE WHERE id IN ({placeholders(ids)})", [*ids])


def insert(events: Sequence[Feedback]) -> None:
    """The rows get their numbers."""
    if not events:
        return
    at_once = connection.ops.bulk_batch_size(COLUMNS, events)
    for start in range(0, len(events), at_once):
        batch = events[start : start + at_once]
        row = f"({placeholders(COLUMNS)})"
        numbers = fetch(f"{_INSERT} VALUES {', '.join([row] * len(batch))} RETURNING id", stored_values(batch, COLUMNS))
        for event, (number,) in zip(batch, numbers, strict=True):
            is_stored(event, number)


def is_stored(event: Feedback, number: int) -> None:
    event.pk = number
    event._state.adding = False
    event._state.db = connection.alias


def stored_values(events: Sequence[Feedback], columns: Sequence[models.Field]) -> list[Any]:
    """One after the other, for each of the columns."""
    database = connections[DEFAULT_DB_ALIAS]  # itself: each access through ``connection`` looks it up
    return [
        getattr(event, column.attname)
        if column in _AS_THEY_ARE
        else column.get_db_prep_save(column.pre_save(event, add=True), database)
        for event in events
        for column in columns
    ]


def await_reward(ids: Collection[UUID]) -> None:
    """Their rewards do not know yet what was said."""
    if ids:
        _run(f"UPDATE rl_trace SET reward_pending = TRUE WHERE id IN ({placeholders(ids)})", _as_stored(ids))


_PK = Trace._meta.pk
COLUMNS = [field for field in Feedback._meta.concrete_fields if not field.primary_key]
_AS_THEY_ARE = {
    column for column in COLUMNS if isinstance(column, (models.CharField, models.TextField, models.FloatField))
}
_ALL = ", ".join(str(field.column) for field in Feedback._meta.concrete_fields)
_INSERT = f"INSERT INTO rl_feedback ({', '.join(str(field.column) for field in COLUMNS)})"


def placeholders(values: Collection[Any]) -> str:
    return ", ".join(["%s"] * len(values))


def _as_stored(ids: Iterable[UUID]) -> list[Any]:
    return [_PK.get_db_prep_value(pk, connection) for pk in ids]


def fetch(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()


def _run(sql: str, values: Sequence[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
