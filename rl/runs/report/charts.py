"""``report.png`` in a run's folder: what changed while it trained, at a glance."""

from __future__ import annotations

from pathlib import Path

from rl.base.errors import UsageError
from rl.base.leaves import leaf
from rl.base.records import Report, TrainingResult

DRAWING = "rl.runs.report.drawing"


def draw_report(result: TrainingResult, path: Path, title: str, report: Report) -> None:
    """A picture that cannot be drawn is told in the log; no run fails for it."""
    try:
        leaf(DRAWING).draw(result, path, title)
    except (UsageError, OSError, ValueError) as error:
        report("log", {"text": f"there is no {path.name}: {error}"})
