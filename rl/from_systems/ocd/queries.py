"""Stored decisions, as OCD's calls ask for them."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, QuerySet

from rl.collect.storable import unstorable
from rl.models import ApiKey, Feedback, Trace
from rl.web.api.auth import visible_to

RAW_REWARD = "rewards__decision__details__reward"
"""Where a trace has its raw reward, once it was calculated."""


def decisions(key: ApiKey, agent_type: str = "") -> QuerySet[Trace]:
    """Those that the key may see; none for a type that cannot be."""
    rows = visible_to(key, Trace.objects.filter(action__isnull=False))
    if not agent_type:
        return rows
    return rows.none() if unstorable(agent_type) else rows.filter(agent__name__iexact=agent_type)


def has_feedback() -> Exists:
    feedback = Feedback.objects.filter(trace=OuterRef("pk"), is_current=True, kind__in=("rating", "correction"))
    return Exists(feedback.order_by())
