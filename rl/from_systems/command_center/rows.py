"""Ratings in Command Center's form: those that count, and those that wait for their entry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from django.db.models import Min, QuerySet

from rl.collect.feedback import waiting
from rl.collect.feedback.waiting import Early
from rl.collect.feedback.write import CHUNK, record
from rl.collect.traces.rows import run_id
from rl.from_systems.command_center.callers import Caller
from rl.models import Feedback, Trace, WaitingRating
from rl.serving.gateway import pending
from rl.web.api.auth import DEVICE
from rl.web.api.lookups import by_external_id

SOURCE = "command_center"
LIVE = "command_center_page"
"""What somebody says now may start a training; what an import brings waits until the plan was seen."""
Row = dict[str, Any]


class Stored(NamedTuple):
    row: Row
    """The rating that counts now; another one than sent if that was older."""
    created: bool


class SeveralAgents(ValueError):
    def __init__(self, entry_id: str, agents: Sequence[str]) -> None:
        self.entry_id = entry_id
        named = ", ".join(sorted(agents))
        super().__init__(f"several agents have an entry {entry_id!r} ({named}): use a key or an origin of one of them")


def list_rows(caller: Caller) -> list[Row]:
    """All that the caller may see, the newest ``rated_at`` first."""
    ratings = Feedback.objects.filter(
        kind=Feedback.Kind.RATING, source__in=(SOURCE, LIVE), rater__startswith=DEVICE
    ).order_by()
    if caller.agent_id is not None:
        ratings = ratings.filter(agent=caller.agent_id)
    firsts = _first_times(ratings)
    current = ratings.filter(is_current=True).select_related("trace").only(*_COLUMNS)
    rows = [_row_of_event(event, firsts[event.trace_id, event.rater]) for event in current]
    rows += map(_row_of_waiting, waiting.waiting_for(caller.agent_id))
    return sorted(rows, key=lambda row: row["rated_at"], reverse=True)


def store(caller: Caller, thumbs: Sequence[Early]) -> list[Stored | SeveralAgents]:
    """What becomes of each, in their order; those whose entry is not here yet wait for it. ``thumbs`` of different entries.
    Raises UsageError and RunConflict."""
    parts = (thumbs[at : at + CHUNK] for at in range(0, len(thumbs), CHUNK))
    return [outcome for part in parts for outcome in _store_part(caller, part)]


def rate_trace(caller: Caller, trace: Trace, thumb: Early) -> Stored:
    rated = record([waiting.event_of(thumb, trace, LIVE, caller.key.pk if caller.key else None)])[0]
    rated.event.trace = trace
    history = Feedback.objects.filter(trace=trace, rater=thumb.rater, kind=Feedback.Kind.RATING).order_by()
    return Stored(_row_of_event(rated.event, _first_times(history)[trace.pk, thumb.rater]), rated.created)


def find_answer(caller: Caller, name: str) -> Trace | None:
    """By its id here, or by the only external id that says so. Raises SeveralAgents."""
    pending.deliver_named([name])  # of the gateway, a moment ago
    rows = _visible(caller)
    try:
        here = rows.filter(pk=run_id(UUID(name))).first()
    except ValueError:
        here = None
    return here or _only(name, _by_entry(caller, [name]).get(name, []))


def _store_part(caller: Caller, thumbs: Sequence[Early]) -> list[Stored | SeveralAgents]:
    traces = _by_entry(caller, [thumb.entry_id for thumb in thumbs])
    waiting.deliver((of_entry[0] for of_entry in traces.values() if len(of_entry) == 1), LIVE)
    return [_store_alone(caller, thumb, traces.get(thumb.entry_id, [])) for thumb in thumbs]


def _store_alone(caller: Caller, thumb: Early, traces: Sequence[Trace]) -> Stored | SeveralAgents:
    try:
        trace = _only(thumb.entry_id, traces)
    except SeveralAgents as several:
        return several
    if trace is not None:
        return rate_trace(caller, trace, thumb)
    row, created = waiting.keep(thumb, caller.agent_id, caller.key)
    return Stored(_row_of_waiting(row), created)


def _visible(caller: Caller) -> QuerySet[Trace]:
    """Without their big columns."""
    rows = Trace.objects.select_related("agent").only("external_id", "agent__name").order_by()
    return rows if caller.agent_id is None else rows.filter(agent=caller.agent_id)


def _by_entry(caller: Caller, entry_ids: Sequence[str]) -> dict[str, list[Trace]]:
    traces: dict[str, list[Trace]] = {}
    for trace in by_external_id(_visible(caller), entry_ids):
        traces.setdefault(trace.external_id or "", []).append(trace)
    return traces


def _only(entry_id: str, traces: Sequence[Trace]) -> Trace | None:
    if len(traces) > 1:
        raise SeveralAgents(entry_id, [trace.agent.name for trace in traces])
    return traces[0] if traces else None


# --- rows --------------------------------------------------------------------------------------------------------------

_COLUMNS = ("rater", "value", "tags", "notes", "rated_at", "created_at", "trace__external_id")


def _first_times(ratings: QuerySet[Feedback]) -> dict[tuple[UUID, str], datetime]:
    """When each rater's first rating of each answer came."""
    first = ratings.values_list("trace_id", "rater").annotate(first=Min("created_at"))
    return {(trace_id, rater): moment for trace_id, rater, moment in first}


def _row_of_event(event: Feedback, created_at: datetime) -> Row:
    entry_id = event.trace.external_id or str(event.trace_id)
    times = {"rated_at": event.rated_at, "created_at": created_at, "updated_at": event.created_at}
    return _row(entry_id, event.rater, (event.value or 0) > 0.5, event.tags, event.notes, times)


def _row_of_waiting(row: WaitingRating) -> Row:
    times = {"rated_at": row.rated_at, "created_at": row.created_at, "updated_at": row.updated_at}
    return _row(row.entry_id, row.rater, row.value > 0.5, row.tags, row.notes, times)


def _row(entry_id: str, rater: str, up: bool, tags: list[str], notes: str, times: dict[str, datetime]) -> Row:
    device_id = rater.removeprefix(DEVICE)
    about = {"id": uuid5(NAMESPACE_URL, f"{entry_id}/{device_id}"), "entry_id": entry_id, "device_id": device_id}
    return {**about, "rating": "up" if up else "down", "tags": tags, "notes": notes, **times}
