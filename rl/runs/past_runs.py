"""What runs took on this machine, against what was estimated for them: the next estimate learns from it, part by part."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from statistics import median
from typing import Any

from rl.base.errors import UsageError
from rl.hardware import HardwareConfig, TrainingEstimate
from rl.models import TrainingRun
from rl.runs.stage_clock import Costs

RUNS = 5
"""How many of the newest runs count: machines and programs change."""

Estimator = Callable[[TrainingRun], TrainingEstimate | None]
"""What would be estimated for a past run before anything was learned; None where the model is not here."""


@dataclass(frozen=True, slots=True)
class Experience:
    runs: int
    ratios: Mapping[str, float]
    """Measured over estimated seconds, the median, of each part of a run."""
    memory_ratio: float
    """The same of the most memory."""
    error: float | None
    """By what factor the last runs lay beside what would have been said before them; None for a single run."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def correct(self, estimate: TrainingEstimate) -> TrainingEstimate:
        return estimate.scale(self.ratios, self.memory_ratio)


@dataclass(frozen=True, slots=True)
class _Pair:
    estimated: TrainingEstimate
    costs: Costs

    @property
    def ratios(self) -> dict[str, float]:
        """Measured over estimated, for the parts that were expected and that the run came to."""
        took = self.costs.seconds
        return {part: took[part] / seconds for part, seconds in self.estimated.parts.items() if part in took}

    def error(self, before: Sequence[_Pair]) -> float:
        """What the runs before would have said over what it took; a logarithm."""
        ratios, parts = _median_ratios(before), self.ratios
        expected = sum(self.estimated.parts[part] * ratios.get(part, 1.0) for part in parts)
        return abs(math.log(expected / sum(self.costs.seconds[part] for part in parts)))


def experience(method: str, base_model: str, hardware: HardwareConfig, estimator: Estimator) -> Experience | None:
    """What past runs of the method tell: those on this machine's device that went through in one go. None without any.

    With the same base model only: a run on a small one is mostly start and end, and says nothing about a large one.
    """
    pairs = [pair for run in _alike(method, base_model, hardware) if (pair := _pair(run, estimator))]
    if not pairs:
        return None
    errors = [pair.error(pairs[:number]) for number, pair in enumerate(pairs) if number]
    memory = median(pair.costs.peak_memory_bytes / pair.estimated.peak_memory_bytes for pair in pairs)
    return Experience(len(pairs), _median_ratios(pairs), memory, math.exp(median(errors)) if errors else None)


def _median_ratios(pairs: Sequence[_Pair]) -> dict[str, float]:
    parts = {part for pair in pairs for part in pair.ratios}
    return {part: median(pair.ratios[part] for pair in pairs if part in pair.ratios) for part in sorted(parts)}


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


def _pair(run: TrainingRun, estimator: Estimator) -> _Pair | None:
    try:
        costs, estimated = Costs.read(run.directory), estimator(run)
    except (OSError, ValueError, TypeError, LookupError, UsageError):  # tidied up, or of an older version
        return None
    if estimated is None or not sum(costs.seconds.get(part, 0.0) for part in estimated.parts):
        return None
    return _Pair(estimated, costs)
