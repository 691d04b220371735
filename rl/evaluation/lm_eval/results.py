"""What lm-evaluation-harness 0.4 writes about a task, and two models compared by it, row by row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rl.base.errors import TrainingFailed
from rl.base.measurements import Interval
from rl.evaluation.stats.intervals import mean_interval

ACCURACIES: Final = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match")
"""The metrics of lm-eval that are a share of rows."""


@dataclass(frozen=True, slots=True)
class ModelScore:
    """One model on one task."""

    task: str
    metric: str
    value: float
    """0 to 1."""
    stderr: float | None
    """None where lm-eval gives none."""
    rows: Mapping[str, float]
    """The metric's value on each row, by the number of the row."""


@dataclass(frozen=True, slots=True)
class TaskScores:
    """The new version and the one in use on the same rows."""

    name: str
    metric: str
    rows: int
    new: float
    new_stderr: float | None
    current: float
    """The version in use, or the base model where none is."""
    current_stderr: float | None
    difference: Interval | None
    """New less current, from the rows in pairs; None with fewer than two."""


def compare(new: ModelScore, current: ModelScore) -> TaskScores:
    """Raises TrainingFailed unless both are on the same rows."""
    if (new.metric, new.rows.keys()) != (current.metric, current.rows.keys()):
        raise TrainingFailed(
            f"lm-eval measured the two models on different rows of {new.task}: the task is not repeatable"
        )
    changes = {row: [value - current.rows[row]] for row, value in new.rows.items()}
    return TaskScores(
        new.task, new.metric, len(changes), new.value, new.stderr, current.value, current.stderr, mean_interval(changes)
    )


def read(folder: Path) -> ModelScore:
    """From the two files that ``--log_samples`` leaves: ``results_*.json`` and ``samples_*.jsonl``.

    Raises TrainingFailed where they are not there, or have no accuracy.
    """
    try:
        results, samples = _only(folder, "results_*.json"), _only(folder, "samples_*.jsonl")
        [(task, metrics)] = json.loads(results.read_text(encoding="utf-8"))["results"].items()
        metric, of_filter = _accuracy(task, metrics)
        rows = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
        values = {str(row["doc_id"]): float(row[metric]) for row in rows if row["filter"] == of_filter}
        stderr = metrics.get(f"{metric}_stderr,{of_filter}")
        value = float(metrics[f"{metric},{of_filter}"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrainingFailed(f"lm-eval left no results that can be read: {error or type(error).__name__}") from None
    return ModelScore(task, metric, value, stderr if isinstance(stderr, float) else None, values)


def _only(folder: Path, pattern: str) -> Path:
    files = list(folder.glob(pattern))
    if len(files) != 1:
        raise ValueError(f"{len(files)} files are called {pattern}, and 1 is expected")
    return files[0]


def _accuracy(task: str, metrics: Mapping[str, Any]) -> tuple[str, str]:
    """The first accuracy, and the filter of answers that it is of: keys are ``acc,none``."""
    for key in metrics:
        metric, _, of_filter = key.partition(",")
        if metric in ACCURACIES:
            return metric, of_filter
    raise TrainingFailed(f"lm-eval: task {task} has no accuracy; its metric_list needs one of {', '.join(ACCURACIES)}")


def in_words(task: Mapping[str, Any]) -> str:
    """``task``: a TaskScores as a mapping."""
    new, current = (_share(task[name], task[f"{name}_stderr"]) for name in ("new", "current"))
    return f"task {task['name']}: {task['metric']} {new}, {current} in use, {task['rows']} rows"


def _share(value: float, stderr: float | None) -> str:
    return f"{value:.1%}" if stderr is None else f"{value:.1%} (standard error {stderr:.1%})"
