"""Looking for traces by words, days, version and tag: among the newest only, so that it never reads a table whole."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Self

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Lower, StrIndex

from rl.base.errors import UsageError
from rl.models import Feedback, Trace

NEWEST = 20_000
"""Traces that a search looks through, from the last day that is asked for backwards."""
LONGEST = 200


@dataclass(frozen=True, slots=True)
class TraceSearch:
    """Empty fields ask for nothing."""

    text: str = ""
    """In the prompt or in the answer, whatever the case."""
    since: str = ""
    until: str = ""
    """Days in UTC, YYYY-MM-DD, both included."""
    version: str = ""
    """Name of a version."""
    tag: str = ""
    """A rater's, whole."""

    @classmethod
    def of_form(cls, form: Any) -> Self:
        """``find`` holds the text. Raises UsageError for a day that is not one."""
        names = {field.name: "find" if field.name == "text" else field.name for field in fields(cls)}
        search = cls(**{name: _read(form.get(key, "")) for name, key in names.items()})
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
        edge = rows.order_by("-created_at", "id").values_list("created_at", flat=True)[NEWEST : NEWEST + 1].first()
        if edge:
            rows = rows.filter(created_at__gt=edge)
        if self.version:
            rows = rows.filter(model_version__name__iexact=self.version)
        return self._by_tag(self._by_text(rows))

    def _by_text(self, rows: QuerySet[Trace]) -> QuerySet[Trace]:
        if not self.text:
            return rows
        # The prompt is stored as JSON: the words are looked for as they are written there.
        written = json.dumps(self.text, ensure_ascii=connection.vendor == "sqlite")[1:-1]
        in_prompt = _position_in(Cast("prompt", TextField()), written)
        return rows.alias(in_answer=_position_in("response", self.text), in_prompt=in_prompt).filter(
            Q(in_answer__gt=0) | Q(in_prompt__gt=0)
        )

    def _by_tag(self, rows: QuerySet[Trace]) -> QuerySet[Trace]:
        if not self.tag:
            return rows
        written = json.dumps(self.tag, ensure_ascii=connection.vendor == "sqlite")
        current = Feedback.objects.filter(trace=OuterRef("pk"), is_current=True).order_by()
        return rows.filter(Exists(current.alias(words=Cast("tags", TextField())).filter(words__contains=written)))


def _position_in(text: Cast | str, words: str) -> StrIndex:
    """0 where they are not in it, whatever the case. LIKE takes seconds where both are of one letter only."""
    return StrIndex(Lower(text), Lower(Value(words)))


def _read(text: str) -> str:
    return text.strip()[:LONGEST].replace("\0", "")


def _day(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        raise UsageError(f"{name}={text[:50]!r} is not a day such as 2026-05-31") from None
