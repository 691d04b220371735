"""Mean and spread of ratings; and many ids in one statement: one with a parameter for each takes longer to make and to read
than to execute."""

import json
import math
from collections.abc import Sequence
from typing import Any

from django.db import connection


def as_parameter(ids: Sequence[int] | Sequence[str]) -> str | list[Any]:
    """All of them as one parameter: for SQLite JSON, which ``json_each`` reads, for PostgreSQL an array."""
    return json.dumps([*ids]) if connection.vendor == "sqlite" else [*ids]


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
