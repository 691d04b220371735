"""Several counts in one statement: each of them alone costs more to compose and to send than to count."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet


def count_each(*rows: QuerySet[Any]) -> list[int]:
    """How many rows each has; a slice counts up to its length."""
    counts: list[str] = []
    values: list[Any] = []
    for part in rows:
        try:
            statement, of_part = part.values("pk").query.sql_with_params()
        except EmptyResultSet:
            counts.append("0")
        else:
            counts.append(f"(SELECT count(*) FROM ({statement}) AS rows_{len(counts)})")  # noqa: S608 (Django composed it)
            values += of_part
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(counts)}", values)
        return list(cursor.fetchone())
