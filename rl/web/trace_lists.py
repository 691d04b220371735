"""Pages of traces, newest first. Each costs a handful of queries over at most a page of rows, however many there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, Func, IntegerField, OuterRef, Q, QuerySet
from django.db.models.functions import Left

from rl.models import Agent, Episode, Feedback, QuestionStart, Trace
from rl.models.traces import SPLIT
from rl.web.trace_search import TraceSearch

EVERYTHING = TraceSearch()
PAGE = 50
_LONG = ("prompt", "response", "tool_calls", "details", "state", "action", "reasoning_steps", "tasks", "rewards")
SHOWN = 161
"""Characters of an answer that a list needs."""
LABELS = {
    "": "all",
    "unlabelled": "not labelled",
    "good": "labelled good",
    "bad": "labelled bad",
    "solved": "episodes: solved",
    "unsolved": "episodes: not solved",
}


@dataclass(frozen=True, slots=True)
class TracePage:
    traces: list[Trace]
    older: str
    """What ``after`` must be for the next page; empty on the last."""


@dataclass(slots=True)
class Ratings:
    """What people think of one answer now."""

    good: int = 0
    bad: int = 0
    between: int = 0
    edited: int = 0
    tags: list[str] = field(default_factory=list)


def newest(agent: Agent | None, label: str = "", after: str = "", search: TraceSearch = EVERYTHING) -> TracePage:
    """``label``: one of LABELS. ``after``: the ``older`` of the page before; anything else shows the first page."""
    if search:
        rows = search.narrow(Trace.objects.filter(agent=agent) if agent else Trace.objects.all())
        return _page(_select_for_list(_behind(_with_label(rows, label), after)))
    if label in ("good", "bad"):
        return _labelled_page(agent, label, after)
    if label in ("solved", "unsolved"):
        return _episodes(agent, label, after)
    if label == "unlabelled" and agent is not None:
        rows = _unlabelled_traces(agent)
    else:
        rows = Trace.objects.filter(agent=agent) if agent else Trace.objects.all()
    return _page(_select_for_list(_behind(rows, after)))


def ratings_of(traces: Iterable[Trace]) -> dict[UUID, Ratings]:
    """One query."""
    kinds = (Feedback.Kind.RATING, Feedback.Kind.CORRECTION)
    events = Feedback.objects.filter(trace__in=[trace.pk for trace in traces], is_current=True, kind__in=kinds)
    ratings: defaultdict[UUID, Ratings] = defaultdict(Ratings)
    for key, kind, value, tags in events.order_by("created_at").values_list("trace_id", "kind", "value", "tags"):
        of_trace = ratings[key]
        of_trace.edited += kind == Feedback.Kind.CORRECTION
        if kind == Feedback.Kind.RATING and value is not None:
            of_trace.good += value > 0.5
            of_trace.bad += value < 0.5
            of_trace.between += value == 0.5
        of_trace.tags += [tag for tag in tags if tag not in of_trace.tags]
    return dict(ratings)


def find_trace(text: str) -> Trace | None:
    """The trace with this id, or this id in the system that it came from."""
    try:
        return Trace.objects.filter(pk=UUID(text)).first()
    except ValueError:
        agents = Agent.objects.values_list("pk", flat=True)
        return Trace.objects.filter(agent__in=list(agents), external_id=text).first()


def conversation(trace: Trace) -> list[Trace]:
    """The first answers of the trace's session, itself included, with a ``question_start``; empty when there is no other."""
    if not trace.session_id:
        return []
    rows = Trace.objects.filter(agent=trace.agent_id, session_id=trace.session_id).order_by("occurred_at")
    rows = rows.exclude(session_id="")  # or SQLite does not see that the partial index is enough
    beginnings: QuerySet[Any] = rows.annotate(question_start=QuestionStart("prompt"))
    turns = list(beginnings.only("id", "agent_id", "occurred_at")[:PAGE])
    return turns if len(turns) > 1 else []


def _unlabelled_traces(agent: Agent) -> QuerySet[Trace]:
    """Those that nobody has rated."""
    ratings = Feedback.objects.filter(trace=OuterRef("pk"), kind=Feedback.Kind.RATING, is_current=True)
    return Trace.objects.filter(~Exists(ratings), agent=agent).exclude(response="").order_by("-created_at", "id")


class _Length(Func):
    """Length of a JSON array; NULL for what is not an array."""

    function = "JSON_ARRAY_LENGTH"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        template = "CASE WHEN jsonb_typeof(%(expressions)s) = 'array' THEN jsonb_array_length(%(expressions)s) END"
        return super().as_sql(compiler, connection, template=template)


def _select_for_list(rows: QuerySet[Trace]) -> QuerySet[Trace]:
    """The database cuts and counts: a page of answers of a megabyte each must not come over whole."""
    selected = rows.select_related("agent", "model_version", "episode")
    selected = selected.annotate(
        question_start=QuestionStart("prompt"),
        answer=Left("response", SHOWN),
        calls=_Length("tool_calls"),
        split=F(f"details__{SPLIT}"),
    )
    return selected.defer(
        "prompt", "response", "tool_calls", "details", "state", "action", "reasoning_steps", "tasks", "rewards"
    )


def _behind(rows: QuerySet[Trace], after: str) -> QuerySet[Trace]:
    moment, _, pk = after.partition("_")
    try:
        at, key = datetime.fromisoformat(moment), UUID(pk)
        at = at.astimezone(UTC)
    except (ValueError, OverflowError):
        return rows
    # The first half lets the index be entered at the right place.
    return rows.filter(created_at__lte=at).filter(Q(created_at__lt=at) | Q(created_at=at, id__gt=key))


def _with_label(rows: QuerySet[Trace], label: str) -> QuerySet[Trace]:
    """Asked of each row of a search, which are few."""
    ratings = Feedback.objects.filter(trace=OuterRef("pk"), kind=Feedback.Kind.RATING, is_current=True)
    if label in ("good", "bad"):
        return rows.filter(Exists(ratings.filter(**({"value__gt": 0.5} if label == "good" else {"value__lt": 0.5}))))
    if label in ("solved", "unsolved"):
        return rows.filter(episode__success=label == "solved", episode__reward__isnull=False)
    return rows.filter(~Exists(ratings)) if label == "unlabelled" else rows


def _page(rows: QuerySet[Trace]) -> TracePage:
    traces = list(rows[: PAGE + 1])
    last = traces[PAGE - 1] if len(traces) > PAGE else None
    return TracePage(traces[:PAGE], f"{last.created_at.isoformat()}_{last.pk}" if last else "")


def _labelled_page(agent: Agent | None, label: str, after: str) -> TracePage:
    """In the order of the ratings: a few labelled traces among a million are found by their ratings."""
    wanted: dict[str, Any] = {"value__gt": 0.5} if label == "good" else {"value__lt": 0.5}
    events = Feedback.objects.filter(kind=Feedback.Kind.RATING, is_current=True, **wanted).order_by("-created_at", "id")
    if agent:
        events = events.filter(agent=agent)
    return _page_of(events.values_list("trace_id", flat=True), after)


def _episodes(agent: Agent | None, label: str, after: str) -> TracePage:
    rows = Episode.objects.filter(success=label == "solved", reward__isnull=False).order_by("-id")
    if agent:
        rows = rows.filter(agent=agent)
    return _page_of(rows.values_list("trace_id", flat=True), after)


def _page_of(traces: QuerySet[Any, UUID], after: str) -> TracePage:
    """``traces``: ids, in the order of the page."""
    start = int(after) if after.isdecimal() and len(after) < 8 else 0
    keys = list(traces[start : start + PAGE + 1])
    rows = {trace.pk: trace for trace in _select_for_list(Trace.objects.filter(pk__in=keys[:PAGE]))}
    older = str(start + PAGE) if len(keys) > PAGE else ""
    return TracePage([rows[key] for key in dict.fromkeys(keys[:PAGE]) if key in rows], older)
