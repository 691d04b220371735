"""Which feedback waits for the next run: the current feedback that no training set has read."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from rl.dataset_builder.frozen.files import FEEDBACK, read_feedback_ids
from rl.models import Feedback, TrainingRun, TrainingSet

CHUNK = 500
"""Ids a statement: well under the databases' limits of parameters, and a transaction of milliseconds."""


def mark(training_set: TrainingSet, ids: Sequence[int]) -> int:
    """Exactly these stop waiting, as far as no earlier set has read them; how many did."""
    changed = 0
    for start in range(0, len(ids), CHUNK):
        waiting = Feedback.objects.filter(pk__in=ids[start : start + CHUNK], training_set__isnull=True)
        changed += waiting.update(training_set=training_set)
    return changed


def release(training_set: TrainingSet) -> int:
    """Lets the feedback that this set was the first to read wait again; how many items do.

    Nothing happens when a run that succeeded, or that made a version before it failed, has learned from the set.
    """
    learned = Q(state=TrainingRun.State.SUCCEEDED) | Q(version__isnull=False)
    if training_set.runs.filter(learned).exists():
        return 0
    changed = 0
    seen = Feedback.objects.filter(training_set=training_set).order_by("pk").values_list("pk", flat=True)
    while ids := list(seen[:CHUNK]):
        changed += Feedback.objects.filter(pk__in=ids).update(training_set=None)
    return changed


def reclaim(training_set: TrainingSet) -> int:
    """Undoes ``release``, for a run that is resumed; how many items stopped waiting."""
    if not (training_set.directory / FEEDBACK).exists():
        return 0
    return mark(training_set, read_feedback_ids(training_set.directory))
