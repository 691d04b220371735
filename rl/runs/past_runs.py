"""How long runs took on this machine, against what was estimated for them: the next estimate learns from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from statistics import median
from typing import Any

from rl.base.errors import UsageError
from rl.hardware import HardwareConfig
from rl.models import TrainingRun, TrainingSet

RUNS = 5
"""How many of the newest runs count: machines and programs change."""
SAMPLE = 200
"""Rows that are looked at for the length of a set's texts."""

Estimator = Callable[[TrainingRun, float], float | None]
"""Seconds that a run whose rows have so many characters would be estimated to take; None where the model is not here."""


@dataclass(frozen=True, slots=True)
class Experience:
    runs: int
    ratio: float
    """Measured over estimated, the median."""
    error: float | None
    """By what factor the last runs lay beside what would have been said before them; None for a single run."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def experience(method: str, base_model: str, hardware: HardwareConfig, estimator: Estimator) -> Experience | None:
    """What past runs of the method tell: those on this machine's device that went through in one go. None without any.

    With the same base model only: a run on a small one is mostly start and end, and says nothing about a large one.
    """
    ratios = [ratio for run in _alike(method, base_model, hardware) if (ratio := _ratio(run, estimator))]
    if not ratios:
        return None
    errors = [abs(math.log(ratio / median(ratios[:number]))) for number, ratio in enumerate(ratios) if number]
    return Experience(len(ratios), median(ratios), math.exp(median(errors)) if errors else None)


def device_of(hardware: dict[str, Any]) -> tuple[str, int]:
    """What decides the speed, from a stored HardwareConfig."""
    gpus = hardware.get("gpus") or []
    return (gpus[0]["name"], len(gpus)) if gpus else (hardware.get("cpu", ""), hardware.get("usable_cores", 0))


def _alike(method: str, base_model: str, hardware: HardwareConfig) -> list[TrainingRun]:
    """The newest comparable runs, the oldest of them first."""
    here = device_of(asdict(hardware))
    newest = TrainingRun.objects.filter(
        method=method,
        version__base_model=base_model,
        state=TrainingRun.State.SUCCEEDED,
        attempt=1,
        training_set__isnull=False,
    ).select_related("agent", "training_set", "version")
    alike = (run for run in newest.order_by("-finished_at")[:100] if device_of(run.hardware) == here and _is_alone(run))
    return list(islice(alike, RUNS))[::-1]


def _is_alone(run: TrainingRun) -> bool:
    return run.options.get("num_processes", 1) == 1 and not run.options.get("accelerate_config")


def _ratio(run: TrainingRun, estimator: Estimator) -> float | None:
    assert run.started_at is not None  # noqa: S101  it succeeded
    assert run.finished_at is not None  # noqa: S101
    try:
        characters = row_characters(run.training_set)
        estimated = estimator(run, characters) if characters else None
    except (OSError, ValueError, TypeError, UsageError):  # tidied up, or of an older version
        return None
    measured = (run.finished_at - run.started_at).total_seconds()
    return measured / estimated if estimated and measured > 0 else None


def row_characters(training_set: TrainingSet | None) -> float:
    """Characters of a prompt with an answer, the median over the first rows; 0 where there are none."""
    if training_set is None:
        return 0.0
    with (training_set.directory / "train.jsonl").open(encoding="utf-8") as file:
        lengths = [_characters(json.loads(line)) for line in islice(file, SAMPLE)]
    return median(lengths) if lengths else 0.0


def _characters(row: dict[str, Any]) -> float:
    answers: Sequence[Any] = [row[name] for name in ("chosen", "rejected", "completion") if name in row]
    answers = [*answers, *row.get("completions", [])]
    mean = sum(map(_length, answers)) / len(answers) if answers else 0.0
    return _length(row["prompt"]) + mean


def _length(messages: Any) -> int:
    return len(messages) if isinstance(messages, str) else sum(len(message["content"]) for message in messages)
