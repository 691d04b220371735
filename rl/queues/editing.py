"""Queues are made, changed, closed: always whole, checked and on record."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from rl.base.errors import UsageError
from rl.models import BASE, AuditEvent, ModelVersion, RatingQueue
from rl.operations import audit
from rl.queues.filters import read_filters

MOST_TAGS, LONGEST_TAG = 20, 50
"""Tags of a queue's own, and the characters of one."""


def save_queue(queue: RatingQueue) -> None:
    """Raises UsageError and ValidationError, and then stores nothing."""
    filters = read_filters(queue.filters)
    if unknown := sorted({name for name in filters.versions if name != BASE} - _versions(queue)):
        raise UsageError(f"filters.versions: {queue.agent} has no version {unknown[0]}")
    if len(queue.tags) > MOST_TAGS or not all(0 < len(tag) <= LONGEST_TAG for tag in queue.tags):
        raise UsageError(f"tags: at most {MOST_TAGS} of 1 to {LONGEST_TAG} characters")
    _keep_rubric(queue)
    queue.full_clean()
    with transaction.atomic():
        queue.save()
        audit.record(AuditEvent.Action.CHANGED, f"rating queue {queue.name}", agent=queue.agent)


def close_queue(queue: RatingQueue, *, closed: bool = True) -> None:
    """A closed one hands out nothing more; what raters have open they may still decide."""
    with transaction.atomic():
        queue.closed_at = timezone.now() if closed else None
        queue.save(update_fields=["closed_at"])
        audit.record(AuditEvent.Action.CHANGED, f"rating queue {queue.name}", agent=queue.agent, closed=closed)


def _versions(queue: RatingQueue) -> set[str]:
    return set(ModelVersion.objects.filter(agent=queue.agent).values_list("name", flat=True))


def _keep_rubric(queue: RatingQueue) -> None:
    """What was decided on one scale cannot be read on another."""
    before = RatingQueue.objects.filter(pk=queue.pk).values_list("rubric", flat=True).first()
    if before not in (None, queue.rubric) and queue.claims.exists():
        raise UsageError(f"rubric: people have rated by {before!r} here; make another queue for {queue.rubric!r}")
