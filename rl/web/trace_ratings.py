"""Counts what people think of each answer of a list: how many found it good or bad, picked it, edited it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from rl.models import Feedback


@dataclass(slots=True)
class Ratings:
    """One answer has these ratings now, and its raters' tags."""

    good: int = 0
    bad: int = 0
    between: int = 0
    picked: int = 0
    passed: int = 0
    """Another answer was picked, side by side with this one."""
    edited: int = 0
    tags: list[str] = field(default_factory=list)


_SIDES = {
    "left": ("picked", "passed"),
    "right": ("passed", "picked"),
    "tie": ("between",) * 2,
    "both_bad": ("bad",) * 2,
}
"""Choice to what it says of the left answer and of the right one."""


def ratings_of(keys: Sequence[UUID]) -> dict[UUID, Ratings]:
    """Two queries: in one, or in an order, SQLite would read the table."""
    kinds = (Feedback.Kind.RATING, Feedback.Kind.CORRECTION, Feedback.Kind.COMPARISON)
    current = Feedback.objects.filter(is_current=True, kind__in=kinds).order_by()
    rows = current.values_list("created_at", "pk", "trace_id", "other_trace_id", "kind", "value", "choice", "tags")
    events = {row[1]: row for side in ("trace", "other_trace") for row in rows.filter(**{f"{side}__in": keys})}
    ratings: defaultdict[UUID, Ratings] = defaultdict(Ratings)
    for _, _, key, other, kind, value, choice, tags in sorted(events.values()):
        of_trace = ratings[key]
        for side, count in zip((key, other), _SIDES.get(choice, ()), strict=False):
            setattr(ratings[side], count, getattr(ratings[side], count) + 1)
        of_trace.edited += kind == Feedback.Kind.CORRECTION
        if kind == Feedback.Kind.RATING and value is not None:
            name = "good" if value > 0.5 else "bad" if value < 0.5 else "between"
            setattr(of_trace, name, getattr(of_trace, name) + 1)
        of_trace.tags += [tag for tag in tags if tag not in of_trace.tags]
    return dict(ratings)
