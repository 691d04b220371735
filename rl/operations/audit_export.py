"""The audit log as a file, written while it is read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any, Final

from django.db.models import QuerySet

from rl.models import AuditEvent

COLUMNS: Final = ("at", "actor", "action", "target", "agent", "address", "request_id", "details")
_ROWS_AT_ONCE = 1000
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that spreadsheets would compute; https://owasp.org/www-community/attacks/CSV_Injection."""


class _Line:
    """What csv writes into: it gives each line back."""

    def write(self, text: str) -> str:
        return text


def csv_lines(events: QuerySet[AuditEvent]) -> Iterator[str]:
    """With a heading. A cell that could be a formula begins with an apostrophe."""
    writer: Any = csv.writer(_Line())
    yield writer.writerow(COLUMNS)
    for values in _documents(events):
        details = json.dumps(values["details"], ensure_ascii=False) if values["details"] else ""
        yield writer.writerow([_cell(str(value)) for value in {**values, "details": details}.values()])


def json_lines(events: QuerySet[AuditEvent]) -> Iterator[str]:
    return (json.dumps(values, ensure_ascii=False) + "\n" for values in _documents(events))


FORMATS: Final = {"csv": (csv_lines, "text/csv"), "jsonl": (json_lines, "application/jsonl")}


def _documents(events: QuerySet[AuditEvent]) -> Iterator[dict[str, Any]]:
    for row in events.values(*COLUMNS).iterator(chunk_size=_ROWS_AT_ONCE):
        yield {**row, "at": row["at"].isoformat()}


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
