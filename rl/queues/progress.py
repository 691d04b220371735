"""How far a rater is in a queue, and what he decided last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Q, QuerySet

from rl.models import Claim, Feedback, RatingQueue, Trace
from rl.queues.items import all_items, items_left
from rl.queues.votes import turn

COUNTED = 1000
"""Progress is counted up to here; beyond, it is said to be more."""
DECIDED = 10
SHORT = 40
"""Characters of a right answer that is its own label."""
_State = Claim.State


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    total: int
    text: str
    """The whole line for people."""

    @property
    def is_finished(self) -> bool:
        return self.done >= self.total


def progress(
    queue: RatingQueue, rater: str, wanted: Q | None = None, decisions: Sequence[Claim] | None = None
) -> Progress:
    """``wanted``: what must hold of an item's first trace. ``decisions``: the last ones, where they are at hand. Counts stop
    at COUNTED."""
    mine = Claim.objects.filter(queue=queue, rater=rater)
    if wanted:
        mine = mine.filter(trace__in=Trace.objects.filter(wanted).order_by())
    mine, is_done = mine.order_by(), Q(state=_State.DECIDED)
    done, total = count_each(mine.filter(is_done)[:COUNTED], all_items(queue, rater, wanted)[:COUNTED])
    if total < COUNTED:
        total = done + sum(count_each(mine.exclude(is_done), items_left(queue, rater, wanted)))
    last = last_decisions(queue, rater).only("decided_at") if decisions is None else decisions
    times = [claim.decided_at for claim in last if claim.decided_at]
    return Progress(done, total, _text(done, total, _per_minute(times)))


def last_decisions(queue: RatingQueue, rater: str) -> QuerySet[Claim]:
    """Those that can be undone, newest first; skips too."""
    return Claim.objects.filter(queue=queue, rater=rater, decided_at__isnull=False).order_by("-decided_at")[:DECIDED]


def label(claim: Claim, rubric: str) -> str:
    """What the rater decided, as he saw it: ``Good``, ``4 of 5``, ``A``, ``Skipped``, ``billing`` where that is right."""
    if claim.state == _State.SKIPPED:
        return "Skipped"
    decision = claim.decision
    if choice := decision.get("choice"):
        return _CHOICES[turn(choice) if claim.swapped else choice]
    if text := decision.get("text", ""):
        return text if rubric == RatingQueue.Rubric.THUMBS and len(text) <= SHORT else "Edited"
    value = decision.get("value", 0.0)
    if rubric == RatingQueue.Rubric.THUMBS:
        return "Good" if value > 0.5 else "Bad"
    return f"{round(value * 4) + 1} of 5" if rubric == RatingQueue.Rubric.STARS else f"{value:.2g}"


_CHOICES: dict[str, str] = {
    Feedback.Choice.LEFT: "A",
    Feedback.Choice.RIGHT: "B",
    Feedback.Choice.TIE: "Tie",
    Feedback.Choice.BOTH_BAD: "Both bad",
}


def _per_minute(times: Sequence[datetime]) -> int | None:
    """Over the last ten decisions, the newest first; None for fewer than three."""
    if len(times) < 3:
        return None
    return round((len(times) - 1) * 60 / max((times[0] - times[-1]).total_seconds(), 1))


def _text(done: int, total: int, speed: int | None) -> str:
    parts = [f"{done} of {total}{'+' if total == COUNTED else ''}"]
    if speed and done < total:
        parts.append(f"{speed} a minute")
        if total < COUNTED:
            parts.append(f"about {math.ceil((total - done) / speed)} min left")
    return " · ".join(parts)


def count_each(*rows: QuerySet[Any]) -> list[int]:
    """How many rows each has, in one statement: each alone costs more to compose and to send than to count. A slice counts
    up to its length."""
    counts: list[str] = []
    values: list[Any] = []
    for part in rows:
        try:
            statement, of_part = part.values("pk").query.sql_with_params()
        except EmptyResultSet:
            counts.append("0")
        else:
            counts.append(f"(SELECT count(*) FROM ({statement}) AS rows_{len(counts)})")  # noqa: S608 (Django composed it)
            values += of_part
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(counts)}", values)
        return list(cursor.fetchone())
