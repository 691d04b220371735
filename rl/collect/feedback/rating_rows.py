"""The statements of a rating, written out: composing them anew for each rating takes ten times as long as running them.

On PostgreSQL, where each is a trip to the server, first ratings of somebody about a trace, as most are, take one statement.
What it leaves out (no such trace, the rater spoke before, somebody was faster) is for the caller to write step by step."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from functools import cache
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, models, transaction

from rl.collect.inserting import mark_stored, numbered_columns, stored_values
from rl.models import Feedback, Trace
from rl.models.whole_rows import placeholders, read_rows

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
    newest = read_rows(
        Feedback,
        f"id IN (SELECT MAX(id) FROM rl_feedback WHERE trace_id IN ({placeholders(traces)}) "
        f"AND rater IN ({placeholders(raters)}) AND kind = 'rating' GROUP BY trace_id, rater)",
        [*_as_stored(traces), *raters],
    )
    return {target_of(event): event for event in newest}


def raters_by_token(ids: Collection[UUID]) -> dict[UUID, set[str]]:
    """Who has judged each with a key that needs tokens, whatever was taken back since. The traces are locked."""
    statements = (
        f"SELECT said.{side}, said.rater FROM rl_feedback AS said JOIN rl_apikey ON rl_apikey.id = said.api_key_id "
        f"WHERE rl_apikey.needs_tokens AND said.kind <> 'retraction' AND said.{side} IN ({placeholders(ids)})"
        for side in ("trace_id", "other_trace_id")
    )
    raters: dict[UUID, set[str]] = {}
    for trace, rater in fetch(" UNION ".join(statements), _as_stored(ids) * 2):
        raters.setdefault(_PK.to_python(trace), set()).add(rater)
    return raters


def supersede(ids: Collection[int]) -> None:
    if ids:
        _run(f"UPDATE rl_feedback SET is_current = FALSE WHERE id IN ({placeholders(ids)})", [*ids])


def await_reward(ids: Collection[UUID]) -> None:
    """Their rewards do not know yet what was said."""
    if ids:
        _run(f"UPDATE rl_trace SET reward_pending = TRUE WHERE id IN ({placeholders(ids)})", _as_stored(ids))


_PK = Trace._meta.pk


def _as_stored(ids: Iterable[UUID]) -> list[Any]:
    return [_PK.get_db_prep_value(pk, connection) for pk in ids]


def fetch(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()


def _run(sql: str, values: Sequence[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


_SAME_IN_ALL = {
    "kind": "'rating'",
    "is_current": "TRUE",
    **dict.fromkeys(("choice", "text", "metric"), "''"),
    **dict.fromkeys(("other_trace_id", "training_set_id", "retracts_id"), "NULL"),
}
"""What no rating says: fewer values to write out and to read."""
_GIVEN = tuple(column for column in numbered_columns(Feedback) if column.column not in _SAME_IN_ALL)


def insert_first(ratings: Sequence[Feedback], *, savepoint: bool = True) -> None:
    """Writes those of ``ratings``, made by ``events.rating``, that are the first of their rater on a trace that is there, of
    several for one target the first alone; they get their numbers and agents. Writes none where the database is not a
    server. Raises IntegrityError or DataError because of some of them, and has written none then; without
    ``savepoint`` a transaction that it is called in can do nothing more."""
    if connection.vendor != "postgresql" or not ratings:
        return
    targets = {target_of(event): event for event in reversed(ratings)}
    with transaction.atomic() if savepoint and connection.in_atomic_block else nullcontext():
        values = chain.from_iterable(stored_values([*targets.values()], _GIVEN))
        rows = fetch(_statement(len(targets)), [*values])
    for trace, rater, number, agent in rows:
        event = targets[trace, rater]
        event.agent_id = agent
        event.pk = number
        mark_stored([event])


@cache
def _statement(count: int) -> str:
    """A trace is locked as it is once whoever held it is done, so ``reward_pending`` is what it is by then. Earlier ratings
    are seen as they were when the statement began; the unique index stops what came meanwhile."""
    names = [str(column.column) for column in _GIVEN]
    written = ["trace.agent_id" if name == "agent_id" else f"given.{name}" for name in names]
    rows = ", ".join([f"({placeholders(_GIVEN)})"] * count)
    return f"""
        WITH given AS (SELECT {", ".join(map(_cast, _GIVEN))} FROM (VALUES {rows}) AS given ({", ".join(names)})),
        trace AS MATERIALIZED (
            SELECT id, agent_id, reward_pending FROM rl_trace WHERE id IN (SELECT trace_id FROM given)
            ORDER BY id FOR NO KEY UPDATE
        ),
        written AS (
            INSERT INTO rl_feedback ({", ".join([*names, *_SAME_IN_ALL])})
            SELECT {", ".join([*written, *_SAME_IN_ALL.values()])} FROM given JOIN trace
                ON trace.id = given.trace_id AND (given.agent_id IS NULL OR given.agent_id = trace.agent_id)
            WHERE NOT EXISTS (
                SELECT 1 FROM rl_feedback AS earlier WHERE earlier.kind = 'rating'
                AND earlier.trace_id = given.trace_id AND earlier.rater = given.rater
            )
            ON CONFLICT DO NOTHING RETURNING trace_id, rater, id, agent_id
        ),
        awaited AS (
            UPDATE rl_trace SET reward_pending = TRUE FROM trace
            WHERE rl_trace.id = trace.id AND NOT trace.reward_pending AND trace.id IN (SELECT trace_id FROM written)
        )
        SELECT trace_id, rater, id, agent_id FROM written"""


def _cast(column: models.Field) -> str:
    """A NULL alone has no type. Texts keep theirs: a cast to varchar(16) would cut them."""
    if isinstance(column, (models.CharField, models.TextField)):
        return str(column.column)
    return f"{column.column}::{column.db_type(connection)}"
