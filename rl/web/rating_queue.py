"""Which answer a rater sees next: the oldest one that he has not rated; what he skipped comes last.

Episodes come after all other answers: a training makes thousands, and must not bury what the agent's users got.

The place in the queue is kept in the session, so that finding the next answer does not walk over all that are done. It is
only a shortcut: without it, or when it points behind the last answer, the search starts at the beginning.
"""

from __future__ import annotations

import math
import time
import uuid
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet

from rl.collect.traces.episodes import SOURCE as EPISODE
from rl.models import Agent, Feedback, Trace
from rl.web.rating_filters import EVERYTHING, Selection

COUNTED = 1000
"""Progress is counted up to here; beyond, it is said to be more."""
SKIPPED = 200
DECIDED = 10


@dataclass(slots=True)
class QueuePosition:
    """One rater's place in one agent's queue, as the session keeps it."""

    since: str = ""
    """Creation time of the newest answer decided on; older ones are rated or skipped."""
    query: str = ""
    """The filters that ``since`` holds for, as the page's address has them."""
    skipped: list[str] = field(default_factory=list)
    """Ids, the longest ago first."""
    decided: list[tuple[int, float]] = field(default_factory=list)
    """Feedback id and time (seconds) of the last ratings, newest last."""

    @classmethod
    def load(cls, stored: dict[str, Any] | None) -> QueuePosition:
        return cls(**stored) if stored else cls()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def choose(self, selection: Selection) -> None:
        """With other filters the search starts at the beginning."""
        if self.query != selection.query:
            self.since, self.query = "", selection.query

    def note_rating(self, trace: Trace, event: Feedback) -> None:
        self._pass(trace)
        self.decided = [*self.decided, (event.pk, time.time())][-DECIDED:]

    def skip(self, trace: Trace) -> None:
        self._pass(trace)
        self.skipped = [*self.skipped, str(trace.pk)][-SKIPPED:]

    def note_undo(self, trace: Trace, event: Feedback) -> None:
        self.decided = [decision for decision in self.decided if decision[0] != event.pk]
        self.since = min(self.since, trace.created_at.isoformat())

    def _pass(self, trace: Trace) -> None:
        self.skipped = [pk for pk in self.skipped if pk != str(trace.pk)]
        self.since = max(self.since, trace.created_at.isoformat())

    def per_minute(self) -> int | None:
        """Over the last ten ratings; None for fewer than three."""
        if len(self.decided) < 3:
            return None
        seconds = self.decided[-1][1] - self.decided[0][1]
        return round((len(self.decided) - 1) * 60 / max(seconds, 1))


def rater_of(username: str) -> str:
    return f"user:{username}"


def rateable_traces(agent: Agent) -> QuerySet[Trace]:
    """Oldest first, in the order of an index that is read backwards."""
    return Trace.objects.filter(agent=agent).exclude(response="").order_by("created_at", "-id")


def unrated_traces(agent: Agent, rater: str) -> QuerySet[Trace]:
    return rateable_traces(agent).filter(~Exists(_ratings(rater).filter(trace=OuterRef("pk"))))


def unlabelled_traces(agent: Agent) -> QuerySet[Trace]:
    """Those that nobody has rated."""
    ratings = Feedback.objects.filter(trace=OuterRef("pk"), kind=Feedback.Kind.RATING, is_current=True)
    return rateable_traces(agent).filter(~Exists(ratings))


def next_trace(left: QuerySet[Trace], position: QueuePosition, showing: uuid.UUID | None = None) -> Trace | None:
    """``left``: what is still to do, oldest first. ``showing``: an answer that is on the screen already, and so not the
    next one. One to five queries."""
    left = left.exclude(pk=showing) if showing else left
    ahead = left.exclude(pk__in=position.skipped) if position.skipped else left
    for traces in _in_turn(ahead):
        if trace := _first(traces, position):
            return trace
    return _first_skipped(left, position)


def _in_turn(traces: QuerySet[Trace]) -> tuple[QuerySet[Trace], ...]:
    return traces.exclude(source=EPISODE), traces.filter(source=EPISODE)


def _first(left: QuerySet[Trace], position: QueuePosition) -> Trace | None:
    if position.since:
        trace = left.filter(created_at__gte=datetime.fromisoformat(position.since)).first()
        if trace:
            return trace
    return left.first()


def _first_skipped(left: QuerySet[Trace], position: QueuePosition) -> Trace | None:
    if not position.skipped:
        return None
    traces = {str(trace.pk): trace for trace in left.filter(pk__in=position.skipped)}
    return next((traces[pk] for pk in position.skipped if pk in traces), None)


def progress(
    agent: Agent, rater: str, position: QueuePosition, selection: Selection = EVERYTHING
) -> dict[str, int | str]:
    """``text`` is the whole line for people; it counts the episodes once all other answers are rated. Two queries over at
    most 1,000 rows each, or four."""
    # "+ 0" keeps the planner from walking over all that others rated instead of using the index on the rater.
    mine = _ratings(rater).annotate(of=F("agent_id") + 0).filter(of=agent.pk).order_by()
    mine = mine.filter(selection.condition("trace__"))
    all_answers = rateable_traces(agent).filter(selection.condition()).order_by()
    done = mine.exclude(trace__source=EPISODE)[:COUNTED].count()
    total = all_answers.exclude(source=EPISODE)[:COUNTED].count()
    if done >= total and (episodes := all_answers.filter(source=EPISODE)[:COUNTED].count()):
        done, total = mine.filter(trace__source=EPISODE)[:COUNTED].count(), episodes
    return {"done": done, "total": total, "text": _progress_text(done, total, position)}


def _progress_text(done: int, total: int, position: QueuePosition) -> str:
    parts = [f"{done} of {total}{'+' if total == COUNTED else ''}"]
    if speed := position.per_minute():
        parts.append(f"{speed} a minute")
        if done < total < COUNTED:
            parts.append(f"about {math.ceil((total - done) / speed)} min left")
    return " · ".join(parts)


def last_decisions(rater: str, position: QueuePosition) -> list[Feedback]:
    """Those of this session that can still be undone, newest first."""
    events = _ratings(rater).filter(pk__in=[pk for pk, _ in position.decided]).select_related("trace")
    return sorted(events, key=lambda event: event.pk, reverse=True)


def _ratings(rater: str) -> QuerySet[Feedback]:
    return Feedback.objects.filter(rater=rater, kind=Feedback.Kind.RATING, is_current=True)
