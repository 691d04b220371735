"""Which feedback waits for the next run: the current feedback that no training set has read."""

from collections.abc import Sequence

from django.db import connection
from django.db.models import Q

from rl.dataset_builder.frozen.files import FEEDBACK, read_feedback_ids
from rl.dataset_builder.read.scores import as_parameter
from rl.models import Feedback, TrainingRun, TrainingSet

CHUNK = 2000
"""Ids a statement: well under the databases' limits of parameters, and a transaction of milliseconds."""
_MARK = {
    "sqlite": "UPDATE rl_feedback SET training_set_id = %s "
    "WHERE id IN (SELECT value FROM json_each(%s)) AND +training_set_id IS NULL",  # +: not by the index of all that wait
    "postgresql": "UPDATE rl_feedback SET training_set_id = %s::uuid "
    "WHERE id = ANY(%s::bigint[]) AND training_set_id IS NULL",
}


def mark(training_set: TrainingSet, ids: Sequence[int]) -> int:
    """Exactly these stop waiting, as far as no earlier set has read them; how many did."""
    import numpy as np  # the website does not load it at its start

    changed = 0
    ranked = np.sort(np.asarray(ids, dtype=np.int64))  # neighbours are on the same pages, each of which is written once
    for start in range(0, len(ranked), CHUNK):
        with connection.cursor() as cursor:
            part = as_parameter(ranked[start : start + CHUNK].tolist())
            cursor.execute(_MARK[connection.vendor], [training_set.pk.hex, part])
            changed += cursor.rowcount
    return changed


def release(training_set: TrainingSet) -> int:
    """Lets the feedback that this set was the first to read wait again; how many items do. Nothing happens when a run
    that succeeded, or that made a version before it failed, has learned from the set."""
    learned = Q(state=TrainingRun.State.SUCCEEDED) | Q(version__isnull=False)
    if training_set.runs.filter(learned).exists():
        return 0
    seen = Feedback.objects.filter(training_set=training_set).order_by().values_list("pk", flat=True)
    return sum(part.update(training_set=None) for part in Feedback.by_ids(seen))


def reclaim(training_set: TrainingSet) -> int:
    """Undoes ``release``, for a run that is resumed; how many items stopped waiting."""
    if not (training_set.directory / FEEDBACK).exists():
        return 0
    return mark(training_set, read_feedback_ids(training_set.directory))
