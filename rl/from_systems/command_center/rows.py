"""Ratings in Command Center's form: those that count, and those that wait for their entry."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from django.db.models import Min, QuerySet, Value
from django.utils import timezone
from rest_framework import serializers

from rl.base.errors import UsageError
from rl.collect.feedback import waiting
from rl.collect.feedback.waiting import Early, Kept
from rl.collect.feedback.write import record
from rl.collect.limits import MAX_ID_LENGTH, MAX_METRIC_LENGTH, MAX_RATER_LENGTH
from rl.collect.traces.rows import run_id
from rl.from_systems.command_center.callers import PageCaller
from rl.models import Feedback, Trace, WaitingRating
from rl.serving.gateway import pending
from rl.web.api.auth import DEVICE
from rl.web.api.lookups import by_external_id
from rl.web.api.pagination import size_of, within
from rl.web.api.ratings import THUMBS, EntryRating
from rl.web.api.serializers.fields import NameField, ShortListField, TextField

MOST_INTERACTIONS, LONGEST_CORRECTION, LONGEST_ACTION = 50, 500, MAX_METRIC_LENGTH - len("interaction:")


class Device(serializers.Serializer):
    device_id = NameField(
        max_length=MAX_RATER_LENGTH - len(DEVICE), required=False, allow_blank=True, allow_null=True, default=""
    )


class OneRating(EntryRating, Device):
    entry_id = TextField(max_length=MAX_ID_LENGTH)
    rated_at = serializers.DateTimeField()


class RatingOfMany(EntryRating):
    """In a bulk, where what is missing has a default."""

    rating = serializers.ChoiceField(list(THUMBS), default="up")


class Interaction(serializers.Serializer):
    action = TextField(max_length=LONGEST_ACTION)
    widget_index = serializers.IntegerField(required=False, allow_null=True)
    duration_ms = serializers.FloatField(required=False, allow_null=True, min_value=0)


class AnswerThumb(serializers.Serializer):
    """On an answer of the production system."""

    query_id = TextField(max_length=MAX_ID_LENGTH)
    rating = serializers.ChoiceField(list(THUMBS))
    interactions = ShortListField(child=Interaction(), longest=MOST_INTERACTIONS, required=False, allow_null=True)
    correction = TextField(max_length=LONGEST_CORRECTION, allow_blank=True, required=False, allow_null=True)


def thumb_of(data: Mapping[str, Any], entry_id: str, device_id: str | None) -> Early:
    """``data``: what a serializer above has checked. A clock that runs ahead would win over all later ratings."""
    now = timezone.now()
    return Early(
        entry_id=entry_id,
        rater=DEVICE + (device_id or ""),
        value=THUMBS[data["rating"]],
        rated_at=min(data.get("rated_at") or now, now),
        tags=data.get("tags") or (),
        notes=data.get("notes") or "",
    )


SOURCE = "command_center"
LIVE = "command_center_page"
"""What somebody says now may start a training; what an import brings waits until the plan was seen."""
Row = dict[str, Any]


class StoredRating(NamedTuple):
    rating: Feedback | WaitingRating
    """The one that counts now, which is another one than sent if that was older; or that waits."""
    created: bool


class SeveralAgents(UsageError):
    def __init__(self, entry_id: str, traces: Sequence[Trace]) -> None:
        named = ", ".join(sorted(trace.agent.name for trace in traces))
        super().__init__(f"several agents have an entry {entry_id!r} ({named}): use a key or an origin of one of them")


class Listed(NamedTuple):
    rows: list[Row]
    total: int
    has_more: bool


def list_rows(caller: PageCaller, start: int, most: int) -> Listed:
    """What the caller may see, the newest ``rated_at`` first: ``most`` rows from the one with the number ``start`` on, or as
    many as have MOST_CHARACTERS. Ratings that were given in the same moment are in an order that stays."""
    ratings = Feedback.objects.filter(
        kind=Feedback.Kind.RATING, source__in=(SOURCE, LIVE), rater__startswith=DEVICE, is_current=True
    ).order_by()
    if caller.agent_id is not None:
        ratings = ratings.filter(agent=caller.agent_id)
    early = waiting.waiting_for(caller.agent_id).order_by()
    keys = [
        of_kind.annotate(waits=Value(waits)).values_list("rated_at", "waits", "pk", size_of(of_kind.model))
        for waits, of_kind in ((False, ratings), (True, early))
    ]
    part = keys[0].union(keys[1], all=True).order_by("-rated_at", "waits", "pk")[start : start + most]
    named = [(waits, pk) for _, waits, pk, _ in within(part, lambda key: key[3])]
    total = ratings.count() + early.count()
    events = Feedback.objects.select_related("trace").only(*_COLUMNS).in_bulk([pk for waits, pk in named if not waits])
    waiting_here = WaitingRating.objects.in_bulk([pk for waits, pk in named if waits])
    rows = ((waiting_here if waits else events).get(pk) for waits, pk in named)
    return Listed(rows_of([row for row in rows if row is not None]), total, start + len(named) < total)


def store(caller: PageCaller, thumbs: Sequence[Early]) -> list[StoredRating | UsageError]:
    """What becomes of each, in their order; those whose entry is not here yet wait for it. ``thumbs``: some hundred of
    different entries. Raises UsageError and RunConflict."""
    traces = _by_entry(caller, [thumb.entry_id for thumb in thumbs])
    waiting.deliver((of_entry[0] for of_entry in traces.values() if len(of_entry) == 1), LIVE)
    outcomes: dict[str, StoredRating | UsageError] = {
        entry_id: SeveralAgents(entry_id, of_entry) for entry_id, of_entry in traces.items() if len(of_entry) > 1
    }
    rated = [(traces[thumb.entry_id][0], thumb) for thumb in thumbs if len(traces.get(thumb.entry_id, ())) == 1]
    outcomes |= zip((thumb.entry_id for _, thumb in rated), rate(caller, rated), strict=True)
    early = [thumb for thumb in thumbs if thumb.entry_id not in traces]
    for thumb, kept in zip(early, waiting.keep(early, caller.agent_id, caller.key), strict=True):
        outcomes[thumb.entry_id] = StoredRating(*kept) if isinstance(kept, Kept) else kept
    return [outcomes[thumb.entry_id] for thumb in thumbs]


def rate(caller: PageCaller, thumbs: Sequence[tuple[Trace, Early]]) -> list[StoredRating]:
    key = caller.key.pk if caller.key else None
    results = record(waiting.event_of(thumb, trace, LIVE, key) for trace, thumb in thumbs)
    for (trace, _), result in zip(thumbs, results, strict=True):
        result.event.trace = trace
    return [StoredRating(result.event, result.created) for result in results]


def find_answer(caller: PageCaller, name: str) -> Trace | None:
    """By its id here, or by the only external id that says so. Raises SeveralAgents."""
    pending.deliver_named([name])  # of the gateway, a moment ago
    rows = _visible(caller)
    try:
        here = rows.filter(pk=run_id(UUID(name))).first()
    except ValueError:
        here = None
    if here is not None:
        return here
    named = _by_entry(caller, [name]).get(name, [])
    if len(named) > 1:
        raise SeveralAgents(name, named)
    return next(iter(named), None)


def _visible(caller: PageCaller) -> QuerySet[Trace]:
    """Without their big columns."""
    rows = Trace.objects.select_related("agent").only("external_id", "agent__name").order_by()
    return rows if caller.agent_id is None else rows.filter(agent=caller.agent_id)


def _by_entry(caller: PageCaller, entry_ids: Sequence[str]) -> dict[str, list[Trace]]:
    traces: dict[str, list[Trace]] = {}
    for trace in by_external_id(_visible(caller), entry_ids):
        traces.setdefault(trace.external_id or "", []).append(trace)
    return traces


_COLUMNS = ("rater", "value", "tags", "notes", "rated_at", "created_at", "trace__external_id")


def rows_of(ratings: Sequence[Feedback | WaitingRating]) -> list[Row]:
    events = [row for row in ratings if isinstance(row, Feedback)]
    history = Feedback.objects.filter(
        kind=Feedback.Kind.RATING, trace__in={row.trace_id for row in events}, rater__in={row.rater for row in events}
    )
    firsts = history.order_by().values_list("trace_id", "rater").annotate(first=Min("created_at"))
    first_times = {(trace_id, rater): moment for trace_id, rater, moment in firsts}
    rows = []
    for row in ratings:
        if isinstance(row, WaitingRating):
            entry_id, created_at, updated_at = row.entry_id, row.created_at, row.updated_at
        else:
            entry_id = row.trace.external_id or str(row.trace_id)
            created_at, updated_at = first_times[row.trace_id, row.rater], row.created_at
        device_id = row.rater.removeprefix(DEVICE)
        about = {"id": uuid5(NAMESPACE_URL, f"{entry_id}/{device_id}"), "entry_id": entry_id, "device_id": device_id}
        says = {"rating": "up" if (row.value or 0) > 0.5 else "down", "tags": row.tags, "notes": row.notes}
        times = {"rated_at": row.rated_at, "created_at": created_at, "updated_at": updated_at}
        rows.append({**about, **says, **times})
    return rows
