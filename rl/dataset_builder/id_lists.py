"""Many ids in one statement: one with a parameter for each takes longer to make and to read than to execute."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db import connection


def as_parameter(ids: Sequence[int] | Sequence[str]) -> str | list[Any]:
    """All of them as one parameter: for SQLite JSON, which ``json_each`` reads, for PostgreSQL an array."""
    return json.dumps([*ids]) if connection.vendor == "sqlite" else [*ids]
