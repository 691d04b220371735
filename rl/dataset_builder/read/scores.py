"""Mean and spread of ratings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from django.db.models import Count, F, Sum

from rl.dataset_builder.frozen.marking import CHUNK
from rl.models import Feedback


def score_figures(ids: Sequence[int]) -> dict[str, float]:
    """Mean and standard deviation (population) of the ratings among these feedback items, as 0 to 1; empty without any."""
    count, total, squares = 0, 0.0, 0.0
    for start in range(0, len(ids), CHUNK):
        ratings = Feedback.objects.filter(pk__in=ids[start : start + CHUNK], kind=Feedback.Kind.RATING).order_by()
        sums = ratings.aggregate(count=Count("pk"), total=Sum("value"), squares=Sum(F("value") * F("value")))
        count += sums["count"]
        total += sums["total"] or 0.0
        squares += sums["squares"] or 0.0
    if not count:
        return {}
    mean = total / count
    return {"mean": mean, "std": math.sqrt(max(0.0, squares / count - mean * mean))}
