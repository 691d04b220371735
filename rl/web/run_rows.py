"""The rows of a run as the model sees them, read from its folder."""

from __future__ import annotations

import json
from typing import Any

from rl.config.training_job import LEARNED_ROWS
from rl.models import Feedback, TrainingRun

MOST_BYTES = 8 << 20
"""A file that is larger was not written by a run."""


def read(run: TrainingRun) -> dict[str, Any]:
    """``rows`` and ``left_out``, both empty where the run has not got so far, or keeps none. Each row has the ``ratings``
    that it was made of."""
    path = run.directory / LEARNED_ROWS
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_BYTES:
        return {"rows": [], "left_out": []}
    kept = json.loads(path.read_text(encoding="utf-8"))
    ratings = Feedback.objects.in_bulk({pk for row in kept["rows"] for pk in row.get("feedback", ())})
    for row in kept["rows"]:
        row["ratings"] = [ratings[pk] for pk in row.get("feedback", ()) if pk in ratings]
    return {"rows": kept["rows"], "left_out": kept["left_out"]}
