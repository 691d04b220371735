"""Pages of traces, newest first. Each costs a handful of queries over at most a page of rows, however many there are."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from time import monotonic
from typing import Any, Final, Self
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.db.models import Exists, F, Func, IntegerField, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Left, Lower, StrIndex
from django.utils import timezone, translation

from rl.base.errors import UsageError
from rl.models import Agent, Episode, Feedback, FollowUpLabel, QuestionStart, Trace
from rl.models.traces import SPLIT

NEWEST = 20_000
"""Traces that a search, and the list of what is not labelled, look through from the last day that is asked for backwards."""
LONGEST = 200


@dataclass(frozen=True, slots=True)
class TraceSearch:
    """Empty fields ask for nothing."""

    text: str = ""
    """In the prompt or in the answer, whatever the case."""
    since: str = ""
    until: str = ""
    """Days in the reader's time zone, YYYY-MM-DD, both included."""
    version: str = ""
    """Name of a version."""
    tag: str = ""
    """A rater's, whole."""

    @classmethod
    def of_form(cls, form: Any) -> Self:
        """``find`` holds the text. Raises UsageError for a day that is not one."""
        names = {field.name: "find" if field.name == "text" else field.name for field in fields(cls)}
        texts = {name: form.get(key, "").strip()[:LONGEST].replace("\0", "") for name, key in names.items()}
        search = cls(**texts)
        search.days()
        return search

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))

    def days(self) -> tuple[datetime | None, datetime | None]:
        """The first moment, and the first after it. Raises UsageError."""
        first, last = _day("since", self.since), _day("until", self.until)
        return first, last + timedelta(days=1) if last else None

    def narrow(self, rows: QuerySet[Trace]) -> QuerySet[Trace]:
        """Two queries: one finds where the newest end."""
        first, after = self.days()
        if after:
            rows = rows.filter(created_at__lt=after)
        if first:
            rows = rows.filter(created_at__gte=first)
        rows = _newest_of(rows)
        if self.version:
            rows = rows.filter(model_version__name__iexact=self.version)
        # Prompts and tags are stored as JSON: words are looked for as they are written there.
        escapes = connection.vendor == "sqlite"
        if self.text:
            # Whatever the case, by position: LIKE takes seconds where both are of one letter only.
            in_json = Lower(Value(json.dumps(self.text, ensure_ascii=escapes)[1:-1]))
            in_prompt = StrIndex(Lower(Cast("prompt", TextField())), in_json)
            rows = rows.alias(in_answer=StrIndex(Lower("response"), Lower(Value(self.text))), in_prompt=in_prompt)
            rows = rows.filter(Q(in_answer__gt=0) | Q(in_prompt__gt=0))
        if self.tag:
            current = Feedback.objects.filter(trace=OuterRef("pk"), is_current=True).order_by()
            words = current.alias(words=Cast("tags", TextField()))
            rows = rows.filter(Exists(words.filter(words__contains=json.dumps(self.tag, ensure_ascii=escapes))))
        return rows


def _newest_of(rows: QuerySet[Trace]) -> QuerySet[Trace]:
    """One query, for where they end."""
    edge = rows.order_by("-created_at", "id").values_list("created_at", flat=True)[NEWEST : NEWEST + 1].first()
    return rows.filter(created_at__gt=edge) if edge else rows


def _day(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.combine(date.fromisoformat(text), datetime.min.time(), timezone.get_current_timezone())
    except ValueError:
        raise UsageError(f"{name}={text[:50]!r} is not a day such as 2026-05-31") from None


SECONDS: Final = 1.5
_STEPS: Final = 10_000
"""Instructions that SQLite works off between two looks at the clock."""
_SET: Final = "set_config('statement_timeout', %s, true)"
"""Holds until the transaction ends."""


@contextmanager
def limited_time(what: str) -> Iterator[None]:
    """For reading only. Raises UsageError where what is done inside takes the database longer than SECONDS."""
    try:
        with _of_sqlite() if connection.vendor == "sqlite" else _of_postgresql():
            yield
    except OperationalError as error:
        cause = error.__cause__
        code = getattr(cause, "sqlite_errorcode", None) or getattr(cause, "sqlstate", None)
        if code not in (sqlite3.SQLITE_INTERRUPT, "57014"):
            raise
        raise UsageError(f"{what} took longer than {SECONDS:g} seconds, and was ended") from None


@contextmanager
def _of_sqlite() -> Iterator[None]:
    connection.ensure_connection()
    until = monotonic() + SECONDS
    connection.connection.set_progress_handler(lambda: monotonic() > until, _STEPS)
    try:
        yield
    finally:
        connection.connection.set_progress_handler(None, 0)


@contextmanager
def _of_postgresql() -> Iterator[None]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SELECT current_setting('statement_timeout'), {_SET}", [f"{SECONDS * 1000:.0f}"])
        before, _ = cursor.fetchone()
        yield
        cursor.execute(f"SELECT {_SET}", [before])


EVERYTHING = TraceSearch()
PAGE = 50
_LONG = ("prompt", "response", "tool_calls", "details", "state", "action", "reasoning_steps", "tasks", "rewards")
SHOWN = 161
"""Characters of an answer that a list needs."""
LABELS = {
    "": translation.gettext_lazy("all"),
    "unlabelled": translation.gettext_lazy("not labelled"),
    "good": translation.gettext_lazy("labelled good"),
    "bad": translation.gettext_lazy("labelled bad"),
    "follow_up": translation.gettext_lazy("with a next message that was read"),
    "solved": translation.gettext_lazy("episodes: solved"),
    "unsolved": translation.gettext_lazy("episodes: not solved"),
}


@dataclass(frozen=True, slots=True)
class TracePage:
    traces: list[Trace]
    older: str
    """What ``after`` must be for the next page; empty on the last."""


def newest(agent: Agent | None, label: str = "", after: str = "", search: TraceSearch = EVERYTHING) -> TracePage:
    """``label``: one of LABELS. ``after``: the ``older`` of the page before; anything else shows the first page."""
    of_agent = {"agent": agent} if agent else {}
    rows = Trace.objects.filter(**of_agent)
    if search:
        return _page(_select_for_list(_behind(_with_label(search.narrow(rows), label), after)))
    if label in ("good", "bad"):
        # In the order of the ratings: a few labelled traces among a million are found by their ratings.
        wanted = {"value__gt": 0.5} if label == "good" else {"value__lt": 0.5}
        events = Feedback.objects.filter(kind=Feedback.Kind.RATING, is_current=True, **wanted, **of_agent)
        return _page_of(events.order_by("-created_at", "id").values_list("trace_id", flat=True), after)
    if label == "follow_up":
        heard = FollowUpLabel.find_sure().filter(**{f"trace__{name}": value for name, value in of_agent.items()})
        return _page_of(heard.order_by("-pk").values_list("trace_id", flat=True), after)
    if label in ("solved", "unsolved"):
        episodes = Episode.objects.filter(success=label == "solved", reward__isnull=False, **of_agent)
        return _page_of(episodes.order_by("-id").values_list("trace_id", flat=True), after)
    if label == "unlabelled" and agent is not None:
        rows = _with_label(_newest_of(rows), label).exclude(response="").order_by("-created_at", "id")
    return _page(_select_for_list(_behind(rows, after)))


def find_trace(text: str) -> Trace | None:
    """The trace with this id, or this id in the system that it came from."""
    try:
        return Trace.objects.filter(pk=UUID(text)).first()
    except ValueError:
        return Trace.by_external_id(text).order_by("-created_at", "id").first()


def conversation(trace: Trace) -> list[Trace]:
    """The first answers of the trace's session, itself included, with a ``question_start``; empty when there is no other."""
    if not trace.session_id:
        return []
    rows = Trace.objects.filter(agent=trace.agent_id, session_id=trace.session_id).order_by("occurred_at")
    rows = rows.exclude(session_id="")  # or SQLite does not see that the partial index is enough
    beginnings: QuerySet[Any] = rows.annotate(question_start=QuestionStart("prompt"))
    turns = list(beginnings.only("id", "agent_id", "occurred_at")[:PAGE])
    return turns if len(turns) > 1 else []


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
    return selected.defer(*_LONG)


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
    if label == "follow_up":
        return rows.filter(pk__in=FollowUpLabel.find_sure().values("trace"))
    if label in ("solved", "unsolved"):
        return rows.filter(episode__success=label == "solved", episode__reward__isnull=False)
    compared = Feedback.objects.filter(kind=Feedback.Kind.COMPARISON, is_current=True)
    sides = [Exists(compared.filter(**{side: OuterRef("pk")})) for side in ("trace", "other_trace")]
    return rows.filter(~Exists(ratings), *(~side for side in sides)) if label == "unlabelled" else rows


def _page(rows: QuerySet[Trace]) -> TracePage:
    traces = list(rows[: PAGE + 1])
    last = traces[PAGE - 1] if len(traces) > PAGE else None
    return TracePage(traces[:PAGE], f"{last.created_at.isoformat()}_{last.pk}" if last else "")


def _page_of(traces: QuerySet[Any, UUID], after: str) -> TracePage:
    """``traces``: ids, in the order of the page."""
    start = int(after) if after.isdecimal() and len(after) < 8 else 0
    keys = list(traces[start : start + PAGE + 1])
    rows = {trace.pk: trace for trace in _select_for_list(Trace.objects.filter(pk__in=keys[:PAGE]))}
    older = str(start + PAGE) if len(keys) > PAGE else ""
    return TracePage([rows[key] for key in dict.fromkeys(keys[:PAGE]) if key in rows], older)
