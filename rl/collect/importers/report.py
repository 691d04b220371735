"""What became of each record."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rl.collect.importers.ledger import Ledger

EXAMPLES = 5
"""Locations kept for each reason."""
REASONS = 50
"""Different reasons kept; a reason may quote the file, and a file may be wrong in endless ways."""
OTHER = "other reasons"


@dataclass(slots=True)
class ImportCount:
    """What became of the records of one sort."""

    read: int = 0
    imported: int = 0
    updated: int = 0
    unchanged: int = 0
    """Here already."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Reason to how often."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Reason to the first locations, named as a person finds them: ``entry e00001``."""

    def skip(self, where: str, reason: str) -> None:
        if reason not in self.skipped and len(self.skipped) >= REASONS:
            reason = OTHER
        self.skipped[reason] += 1
        locations = self.examples.setdefault(reason, [])
        if len(locations) < EXAMPLES:
            locations.append(where)

    def as_dict(self) -> dict[str, Any]:
        skipped = [
            {"reason": reason, "count": count, "examples": self.examples[reason]}
            for reason, count in self.skipped.most_common()
        ]
        names = ("read", "imported", "updated", "unchanged")
        return {**{name: getattr(self, name) for name in names}, "skipped": skipped}


@dataclass(slots=True)
class ImportReport:
    """``read``, ``imported``, ``updated`` and ``skipped`` add up both sorts of records."""

    traces: ImportCount = field(default_factory=ImportCount)
    feedback: ImportCount = field(default_factory=ImportCount)
    ledger: Ledger = field(default_factory=Ledger)
    """Empty for formats whose records have no columns."""

    @property
    def read(self) -> int:
        return self.traces.read + self.feedback.read

    @property
    def imported(self) -> int:
        return self.traces.imported + self.feedback.imported

    @property
    def updated(self) -> int:
        return self.traces.updated + self.feedback.updated

    @property
    def skipped(self) -> Counter[str]:
        return self.traces.skipped + self.feedback.skipped

    def as_dict(self) -> dict[str, Any]:
        columns = {"columns": self.ledger.as_list()} if self.ledger.records else {}
        return {"traces": self.traces.as_dict(), "feedback": self.feedback.as_dict(), **columns}
