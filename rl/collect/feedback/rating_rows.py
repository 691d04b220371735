"""The statements of a rating, written out: composing them anew for each rating takes ten times as long as running them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

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
        f"WHERE rl_apikey.needs_tokens AND said.kind <> 'retraction' AND said.{side} IN ({placeholders(ids)})"  # noqa: S608
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
