"""How fast this machine is: what runs took here against what was estimated for them, from which the next estimate learns,
part by part; and how fast it works with a base model, timed once by a process of its own, and kept.

What is kept holds for the same device, threads, torch, model and precision; anything else is timed anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Final

from django.conf import settings

from rl.base.errors import UsageError
from rl.base.files import write_json
from rl.base.records import Report
from rl.config import TrainingConfig, find_method
from rl.hardware import (
    HardwareConfig,
    ModelShape,
    Speed,
    TrainingEstimate,
    assumed_speed,
    precision_here,
    trains_in_bf16,
)
from rl.models import TrainingRun
from rl.runs.child_environment import library_variables
from rl.runs.stage_log import Costs
from rl.serving import machine

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
    alike = (
        run
        for run in newest.order_by("-finished_at")[:100]
        if device_of(run.hardware) == here
        and run.options.get("num_processes", 1) == 1
        and not run.options.get("accelerate_config")
    )
    return list(islice(alike, RUNS))[::-1]


def _pair(run: TrainingRun, estimator: Estimator) -> _Pair | None:
    try:
        costs, estimated = Costs.read(run.directory), estimator(run)
    except (OSError, ValueError, TypeError, LookupError, UsageError):  # tidied up, or of an older version
        return None
    if estimated is None or not sum(costs.seconds.get(part, 0.0) for part in estimated.parts):
        return None
    return _Pair(estimated, costs)


TIMING: Final = "rl.lm.timing"
_DESCRIBED: Final = ("config.json", "tokenizer_config.json", "chat_template.jinja")
LONGEST = 180.0
"""Seconds. A machine that takes longer is not timed."""


@dataclass(frozen=True, slots=True)
class TimedModel:
    """What a speed is of."""

    folder: Path
    shape: ModelShape
    hardware: HardwareConfig

    def speed(self, config: TrainingConfig) -> Speed:
        """That was timed here, else one from constants of the device's kind."""
        return self._read(config) or assumed_speed(self.shape, self.hardware, trains_in_bf16(config, self.hardware))

    def measure(self, config: TrainingConfig, method: str, report: Report) -> None:
        """Times the model where that was not done yet, which takes some ten seconds; the log says why where it cannot be."""
        if self._read(config):
            return
        report("stage", {"name": "timing this machine with the base model"})
        command = [sys.executable, "-m", TIMING, str(self.folder), find_method(method).module]
        command.append(precision_here(config, self.hardware))
        variables = {**library_variables(), **_threads_variable()}
        try:
            done = subprocess.run(
                command, cwd=settings.BASE_DIR, env=variables, capture_output=True, text=True, timeout=LONGEST
            )
            speed = Speed.from_dict(json.loads(done.stdout.splitlines()[-1])) if done.stdout else None
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            speed, why = None, str(error)
        else:
            why = (done.stderr.strip().splitlines() or ["nothing came out"])[-1]
        if speed is None:
            report("log", {"text": f"the machine could not be timed, so the time is a guess: {why}"})
            return
        file = self._file(config)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {"of": self._about(config), "speed": speed.as_dict()})

    def _read(self, config: TrainingConfig) -> Speed | None:
        try:
            stored = json.loads(self._file(config).read_text(encoding="utf-8"))
            return Speed.from_dict(stored["speed"]) if stored["of"] == self._about(config) else None
        except (OSError, ValueError, LookupError, TypeError):
            return None  # what cannot be read is timed again

    def _file(self, config: TrainingConfig) -> Path:
        mark = hashlib.sha256(json.dumps(self._about(config), sort_keys=True).encode()).hexdigest()[:16]
        return settings.DATA_DIR / "speeds" / f"{mark}.json"

    def _about(self, config: TrainingConfig) -> dict[str, Any]:
        # what tells the model's layers and template, wherever it lies
        described = [self.folder / name for name in _DESCRIBED if (self.folder / name).is_file()]
        try:
            torch = version("torch")
        except PackageNotFoundError:
            torch = ""
        return {
            "device": list(device_of(asdict(self.hardware))),
            "threads": _threads_variable().get("OMP_NUM_THREADS", ""),
            "torch": torch,
            "model": hashlib.sha256(b"\n".join(file.read_bytes() for file in described)).hexdigest(),
            "shape": asdict(self.shape),
            "precision": precision_here(config, self.hardware),
        }


def _threads_variable() -> dict[str, str]:
    """As a run takes them."""
    if threads := os.environ.get("OMP_NUM_THREADS") or machine.training_threads(machine.serving_threads()):
        return {"OMP_NUM_THREADS": str(threads)}
    return {}
