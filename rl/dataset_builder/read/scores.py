"""Mean and spread of ratings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from django.db import connection

from rl.dataset_builder.id_lists import as_parameter

CHUNK = 500
"""Ids a statement."""
_SUMS = {
    "sqlite": "SELECT count(*), sum(value), sum(value * value) FROM rl_feedback "
    "WHERE id IN (SELECT value FROM json_each(%s)) AND kind = 'rating'",
    "postgresql": "SELECT count(*), sum(value ORDER BY id), sum(value * value ORDER BY id) FROM rl_feedback "
    "WHERE id = ANY(%s::bigint[]) AND kind = 'rating'",
}
"""The order decides the last digits; SQLite looks the ids up in theirs."""


def score_figures(ids: Sequence[int]) -> dict[str, float]:
    """Mean and standard deviation (population) of the ratings among these feedback items, as 0 to 1; empty without any."""
    count, total, squares = 0, 0.0, 0.0
    with connection.cursor() as cursor:
        for start in range(0, len(ids), CHUNK):
            cursor.execute(_SUMS[connection.vendor], [as_parameter(ids[start : start + CHUNK])])
            ratings, of_values, of_squares = cursor.fetchone()
            count += ratings
            total += of_values or 0.0
            squares += of_squares or 0.0
    if not count:
        return {}
    mean = total / count
    return {"mean": mean, "std": math.sqrt(max(0.0, squares / count - mean * mean))}
