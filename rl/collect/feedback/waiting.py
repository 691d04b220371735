"""Thumbs on answers that are not here yet: kept, and recorded as soon as the answer comes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from rl.collect.feedback import write
from rl.collect.feedback.events import rating
from rl.models import ApiKey, Feedback, Trace, WaitingRating


@dataclass(frozen=True, slots=True)
class Thumb:
    """``tags`` and ``notes`` within the limits of ``rl.collect.limits``; ``rated_at`` not in the future."""

    entry_id: str
    rater: str
    up: bool
    rated_at: datetime
    tags: Sequence[str] = field(default_factory=tuple)
    notes: str = ""


def keep(thumb: Thumb, agent_id: int | None, api_key: ApiKey | None) -> tuple[WaitingRating, bool]:
    """The thumb that waits now, and whether it is the rater's first on the entry; the latest ``rated_at`` wins."""
    values = {"up": thumb.up, "tags": list(thumb.tags), "notes": thumb.notes, "rated_at": thumb.rated_at}
    with transaction.atomic():
        row, created = WaitingRating.objects.select_for_update().get_or_create(  # type: ignore[misc]  # NULL is a value here
            agent_id=agent_id, entry_id=thumb.entry_id, rater=thumb.rater, defaults={**values, "api_key": api_key}
        )
        if not created and thumb.rated_at >= row.rated_at:
            for name, value in values.items():
                setattr(row, name, value)
            row.save()
    return row, created


def waiting_for(agent_id: int | None) -> QuerySet[WaitingRating]:
    """All that an answer of the agent could settle; None: all."""
    rows = WaitingRating.objects.all()
    return rows if agent_id is None else rows.filter(Q(agent=agent_id) | Q(agent__isnull=True))


def deliver(traces: Iterable[Trace], source: str) -> int:
    """Records what waits for these answers, some hundred at most; how many thumbs that were."""
    here = {trace.external_id or "": trace for trace in traces}
    if not here:
        return 0
    with transaction.atomic():
        rows = WaitingRating.objects.select_for_update().filter(entry_id__in=here).order_by("rated_at", "id")
        due = [row for row in rows if row.agent_id in (None, here[row.entry_id].agent_id)]
        write.record([event_of(row, here[row.entry_id], source, row.api_key_id) for row in due])
        WaitingRating.objects.filter(pk__in=[row.pk for row in due]).delete()
    return len(due)


def event_of(thumb: Thumb | WaitingRating, trace: Trace, source: str, api_key_id: int | None) -> Feedback:
    """The feedback to record, of a thumb that has just come or that waited."""
    return rating(
        trace,
        rater=thumb.rater,
        scale=Feedback.Scale.THUMB,
        value=int(thumb.up),
        tags=thumb.tags,
        notes=thumb.notes,
        rated_at=thumb.rated_at,
        source=source,
        api_key_id=api_key_id,
    )
