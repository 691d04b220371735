"""Ratings of answers that are not here yet: kept, and recorded as soon as the answer comes.

Command Center's know their answer by its external id. Others know the id that it will have here, as a token says; of these a
bounded number waits, for as long as a token is valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from rl.base.slugs import check_name, one_line
from rl.collect.feedback import tokens, write
from rl.collect.feedback.events import rating
from rl.models import Agent, ApiKey, Feedback, Trace, WaitingRating

MOST, MOST_OF_ANSWER = 10_000, 100
"""Ratings that wait by id: altogether, and for one answer."""
SOURCE: Final = "api"


@dataclass(frozen=True, slots=True)
class Early:
    """``tags`` and ``notes`` within the limits of ``rl.collect.limits``; ``rated_at`` not in the future."""

    entry_id: str
    rater: str
    value: float
    """As given."""
    rated_at: datetime
    scale: str = Feedback.Scale.THUMB
    tags: Sequence[str] = field(default_factory=tuple)
    notes: str = ""
    by_id: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError for a name that could not be recorded."""
        check_name(self.rater, "the rater's name")


class Kept(NamedTuple):
    row: WaitingRating
    """What waits now; the latest ``rated_at`` wins."""
    created: bool
    """It is the rater's first of this answer."""


def keep(early: Early, agent_id: int | None, api_key: ApiKey | None) -> Kept:
    about = {"entry_id": early.entry_id, "rater": early.rater, "by_id": early.by_id}
    values: dict[str, Any] = {
        "scale": early.scale,
        "value": early.value,
        "tags": list(early.tags),
        "notes": early.notes,
    }
    values["rated_at"] = early.rated_at
    with transaction.atomic():
        row, created = WaitingRating.objects.select_for_update().get_or_create(  # type: ignore[misc]  # NULL is a value here
            agent_id=agent_id, **about, defaults={**values, "api_key": api_key}
        )
        if not created and early.rated_at >= row.rated_at:
            for name, value in values.items():
                setattr(row, name, value)
            row.save()
    return Kept(row, created)


def may_wait(early: Early, agent_id: int) -> bool:
    """Whether there is room, once those are gone whose answer never came, and the agent is there."""
    rows = WaitingRating.objects.filter(by_id=True)
    rows.filter(created_at__lt=timezone.now() - tokens.validity()).delete()
    if rows.filter(entry_id=early.entry_id, rater=early.rater).exists():
        return True
    has_room = rows.count() < MOST and rows.filter(entry_id=early.entry_id).count() < MOST_OF_ANSWER
    return has_room and Agent.objects.filter(pk=agent_id).exists()


def drop(trace_id: str, agent_id: int, rater: str) -> bool:
    """Whether the rater's rating waited."""
    rows = WaitingRating.objects.filter(by_id=True, entry_id=trace_id, agent=agent_id, rater=rater)
    return rows.delete()[0] > 0


def waiting_for(agent_id: int | None) -> QuerySet[WaitingRating]:
    """Command Center's that an answer of the agent could settle; None: all."""
    rows = WaitingRating.objects.filter(by_id=False)
    return rows if agent_id is None else rows.filter(Q(agent=agent_id) | Q(agent__isnull=True))


def deliver(traces: Iterable[Trace], source: str) -> int:
    """Records what waits for these answers by their external ids, some hundred at most; how many ratings that were."""
    return _deliver({trace.external_id or "": trace for trace in traces}, source, by_id=False)


def deliver_by_id(traces: Mapping[UUID, Trace]) -> int:
    """Records what waits for these answers, which are stored, by the ids that tokens gave them; how many ratings that
    were."""
    return _deliver({str(trace_id): trace for trace_id, trace in traces.items()}, SOURCE, by_id=True)


def _deliver(here: dict[str, Trace], source: str, *, by_id: bool) -> int:
    if not here:
        return 0
    of_agents = Q(agent__in={trace.agent_id for trace in here.values()}) | Q(agent__isnull=True)
    with transaction.atomic():
        rows = WaitingRating.objects.select_for_update().filter(of_agents, entry_id__in=here, by_id=by_id)
        due = [row for row in rows.order_by("rated_at", "id") if row.agent_id in (None, here[row.entry_id].agent_id)]
        write.record([event_of(row, here[row.entry_id], source, row.api_key_id) for row in due])
        WaitingRating.objects.filter(pk__in=[row.pk for row in due]).delete()
    return len(due)


def event_of(early: Early | WaitingRating, trace: Trace, source: str, api_key_id: int | None) -> Feedback:
    """The feedback to record, of a rating that has just come or that waited."""
    return rating(
        trace,
        rater=one_line(early.rater),  # of a row that is older than the rule for names
        scale=early.scale,
        value=early.value,
        tags=early.tags,
        notes=early.notes,
        rated_at=early.rated_at,
        source=source,
        api_key_id=api_key_id,
    )
