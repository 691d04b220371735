"""Which of an agent's answers a queue asks about: its ``filters``, checked, and as a condition of a query.

{"search": "parcel", "versions": ["base", "v2"], "sources": ["gateway"], "tags": ["wrong"], "rated": false,
 "from": "2026-01-01", "to": "2026-12-31", "details": {"category": "energy", "natural": true}}"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Exists, OuterRef, Q, TextField
from django.db.models.functions import Cast
from django.db.models.lookups import IContains

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.collect.storable import unstorable
from rl.models import BASE, Feedback

LONGEST = 200
"""Characters of a text in a filter."""
MOST = 50
"""Values of a filter."""


@dataclass(frozen=True, slots=True)
class Filters:
    search: str = ""
    """In the prompt's messages and the answer, whatever its case."""
    versions: tuple[str, ...] = ()
    """``base`` stands for answers that name none."""
    sources: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """At least one of them stands in somebody's current feedback."""
    rated: bool | None = None
    """By anybody."""
    since: date | None = None
    until: date | None = None
    """The last day that counts; days are those of UTC."""
    details: Mapping[str, str | bool | float] = field(default_factory=dict)

    def condition(self, trace: str = "") -> Q:
        """``trace``: the way to the trace, such as ``left__``, where there is one."""
        wanted = Q()
        if self.search:
            wanted &= _contains(f"{trace}prompt", _in_json(self.search)) | _contains(f"{trace}response", {self.search})
        if self.versions:
            named = [name for name in self.versions if name != BASE]
            nameless = Q(**{f"{trace}model_version__isnull": True}) if BASE in self.versions else Q()
            wanted &= Q(**{f"{trace}model_version__name__in": named}) | nameless
        if self.sources:
            wanted &= Q(**{f"{trace}source__in": self.sources})
        if self.since:
            wanted &= Q(**{f"{trace}created_at__gte": datetime.combine(self.since, time.min, UTC)})
        if self.until:
            end = datetime.combine(self.until + timedelta(days=1), time.min, UTC)
            wanted &= Q(**{f"{trace}created_at__lt": end})
        for name, value in self.details.items():
            wanted &= Q(**{f"{trace}details__{name}": value})
        return wanted & self._by_feedback(trace)

    def _by_feedback(self, trace: str) -> Q:
        events = Feedback.objects.filter(trace=OuterRef(f"{trace}pk"), is_current=True).order_by()
        wanted = Q()
        if self.tags:
            quoted = {f'"{spelling}"' for tag in self.tags for spelling in _in_json(tag)}
            wanted &= Q(Exists(events.filter(_contains("tags", quoted))))
        if self.rated is not None:
            ratings = Exists(events.filter(kind__in=(Feedback.Kind.RATING, Feedback.Kind.CORRECTION)))
            wanted &= Q(ratings) if self.rated else ~Q(ratings)
        return wanted


def read_filters(given: object) -> Filters:
    """Raises UsageError that says which filter is wrong, and how."""
    if not isinstance(given, Mapping):
        raise UsageError('filters: an object is wanted, such as {} or {"rated": false}')
    if problem := unstorable(given):
        raise UsageError(f"filters: the object {problem}")
    values: dict[str, Any] = {}
    for name, value in given.items():
        require_known("filter", name, _READERS)
        column, read = _READERS[name]
        values[column] = read(name, value)
    filters = Filters(**values)
    if filters.since and filters.until and filters.since > filters.until:
        raise UsageError(f"filters: from ({filters.since}) is later than to ({filters.until})")
    return filters


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        raise UsageError(f"filters.{name}: a text of 1 to {LONGEST} characters is wanted, not {value!r:.80}")
    return value.strip()


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST:
        raise UsageError(f"filters.{name}: a list of 1 to {MOST} texts is wanted, not {value!r:.80}")
    return tuple(_text(name, text) for text in value)


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"filters.{name}: true or false is wanted, not {value!r:.80}")
    return value


def _date(name: str, value: object) -> date:
    try:
        day = date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        day = None
    if day is None or day.year >= date.max.year:
        raise UsageError(f"filters.{name}: a date such as 2026-12-31 is wanted, not {value!r:.80}")
    return day


def _details(name: str, value: object) -> dict[str, str | bool | float]:
    if not isinstance(value, Mapping) or not 1 <= len(value) <= MOST:
        raise UsageError(f"filters.{name}: an object of 1 to {MOST} values is wanted, not {value!r:.80}")
    for key, wanted in value.items():
        if not key.isidentifier() or "__" in key:
            raise UsageError(f"filters.{name}: {key!r:.80} is not the name of a detail (letters, digits, single _)")
        if not isinstance(wanted, (bool, int, float)):
            _text(f"{name}.{key}", wanted)
    return dict(value)


_READERS: dict[str, tuple[str, Callable[[str, object], Any]]] = {
    "search": ("search", _text),
    "versions": ("versions", _texts),
    "sources": ("sources", _texts),
    "tags": ("tags", _texts),
    "rated": ("rated", _truth),
    "from": ("since", _date),
    "to": ("until", _date),
    "details": ("details", _details),
}
"""Name in the JSON to the attribute, and what reads it."""


def _in_json(text: str) -> set[str]:
    """As the column has it: SQLite keeps JSON with escapes for all but ASCII, PostgreSQL without."""
    return {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}


def _contains(column: str, spellings: Collection[str]) -> Q:
    return reduce(or_, (Q(IContains(Cast(column, TextField()), spelling)) for spelling in sorted(spellings)))
