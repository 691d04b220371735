"""First ratings of somebody about a trace, as most are, in one statement instead of five: on PostgreSQL each is a trip to
the server. (On SQLite, where none is, the five cost less.)

What the statement leaves out (the trace is not there, the rater spoke before, somebody was faster) is for the caller to
write step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from itertools import chain

from django.db import connection, models, transaction

from rl.collect.feedback.rating_rows import fetch, target_of
from rl.collect.inserting import mark_stored, numbered_columns, stored_values
from rl.models import Feedback
from rl.models.whole_rows import placeholders

_SAME_IN_ALL = {
    "kind": "'rating'",
    "is_current": "TRUE",
    "choice": "''",
    "text": "''",
    "metric": "''",
    "other_trace_id": "NULL",
    "training_set_id": "NULL",
    "retracts_id": "NULL",
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
        SELECT trace_id, rater, id, agent_id FROM written"""  # noqa: S608 (names of columns, placeholders for values)


def _cast(column: models.Field) -> str:
    """A NULL alone has no type. Texts keep theirs: a cast to varchar(16) would cut them."""
    if isinstance(column, (models.CharField, models.TextField)):
        return str(column.column)
    return f"{column.column}::{column.db_type(connection)}"
