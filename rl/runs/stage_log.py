"""Which stages a run has gone through, how fast the present one is, how long its parts take and the most memory that it
holds: kept in its folder for the pages to read, and for later estimates to learn from."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from rl.base.files import write_json
from rl.base.leaves import leaf
from rl.hardware import Part

FILE: Final = "stages.json"
WRITE_SECONDS: Final = 2.0
"""Between two writes within a stage."""


@dataclass(slots=True)
class Pace:
    """How fast one stage is. Moments are seconds since 1970."""

    first_step: int
    first_at: float
    """When the first step that was heard of ended: what came before it, such as loading, is not in the pace."""
    step: int
    total: int
    at: float

    def seconds_left(self, now: float) -> float | None:
        """To the end of the stage; None before its second step, and where the total is not known. Time in which no step
        ends counts for one step at most."""
        done = self.step - self.first_step
        if done <= 0 or self.total < self.step:
            return None
        a_step = max(0.0, self.at - self.first_at) / done
        return max(0.0, a_step * (self.total - self.step) - min(max(0.0, now - self.at), a_step))


@dataclass(frozen=True, slots=True)
class Stages:
    names: tuple[str, ...]
    """In the order of the attempt, the present one last."""
    pace: Pace | None

    @classmethod
    def read(cls, folder: Path) -> Stages:
        """Empty where nothing that can be read is there."""
        path = folder / FILE
        with suppress(OSError, ValueError, TypeError, KeyError):
            if path.is_symlink():
                return cls((), None)
            document: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            pace = document["pace"]
            return cls(tuple(map(str, document["stages"])), Pace(**pace) if pace else None)
        return cls((), None)


class StageLog:
    """A Report. A disk that refuses costs the pages their guess, and the run nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: list[str] = []
        self._pace: Pace | None = None
        self._written = 0.0

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        if event == "stage":
            self._names.append(str(values["name"]))
            self._pace = None
            self._write()
        elif event == "step" and self._names:
            self._step(int(values["step"]), int(values["total_steps"]))
        elif event == "paused" and self._pace:
            self._pace.first_at += values["seconds"]

    def _step(self, step: int, total: int) -> None:
        now = time.time()
        if self._pace is None or step < self._pace.step or total != self._pace.total:
            self._pace = Pace(step, now, step, total, now)
        elif step > self._pace.step:
            self._pace.step, self._pace.at = step, now
        if time.monotonic() - self._written >= WRITE_SECONDS:
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        with suppress(OSError):
            write_json(self._folder / FILE, {"stages": self._names, "pace": asdict(self._pace) if self._pace else None})


COSTS: Final = "costs.json"
RESOURCES: Final = "rl.lm.resources"
_PARTS: Final[tuple[tuple[str, Part | None], ...]] = (
    ("preparing", Part.START),
    ("starting the processes", Part.START),
    ("waiting for the device", None),
    ("loading the base model", Part.LOADING),
    ("weighing the ratings", Part.WEIGHING),
    ("sampling answers to learn from", Part.SAMPLES),
    ("imitating", Part.IMITATION),
    ("scoring under the base model", Part.REFERENCE),
    ("learning without part", Part.FOLDS),
    ("training", Part.STEPS),
    ("scoring", Part.EVALUATION),
    ("evaluating", Part.EVALUATION),
    ("answering as", Part.EVALUATION),
    ("solving tasks as", Part.EVALUATION),
    ("rewarding the answers", Part.EVALUATION),
    ("fresh answers", Part.FRESH),
    ("what the judge sees", Part.FRESH),
    ("judging the answers", Part.FRESH),
    ("exporting", Part.EXPORT),
    ("judging the exported file", Part.EXPORT),
)
"""What a stage's name begins with, to the part of the estimate that it counts to; stages with other names belong to what
they come in. None: nobody is at work."""


@dataclass(frozen=True, slots=True)
class Costs:
    seconds: Mapping[str, float]
    """By the names of ``Part``."""
    cpu_seconds: Mapping[str, float]
    """All threads together, and processes that it started and that have ended."""
    peak_memory_bytes: int
    """On the device that trained; of the whole life of the process."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises OSError, ValueError or TypeError where there are none."""
        costs = cls(**json.loads((folder / COSTS).read_text(encoding="utf-8")))
        if not all(isinstance(value, (int, float)) and value >= 0 for value in costs.seconds.values()):
            raise ValueError(f"{folder / COSTS} has a part that did not take a number of seconds")
        return costs


class StageClock:
    """A Report: each stage ends the one before it."""

    def __init__(self) -> None:
        self._part: Part | None = Part.START
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._cpu_seconds: defaultdict[str, float] = defaultdict(float)
        self._turned = (time.monotonic(), _cpu_seconds())

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        if event == "stage":
            name = str(values["name"])
            self._turn(next((part for start, part in _PARTS if name.startswith(start)), self._part))
        elif event == "paused" and self._part:
            self._seconds[self._part.value] -= values["seconds"]

    def save(self, folder: Path) -> None:
        """At the end of the run, which a full disk does not make fail."""
        self._turn(None)
        costs = Costs(dict(self._seconds), dict(self._cpu_seconds), leaf(RESOURCES).peak_memory())
        with suppress(OSError):
            write_json(folder / COSTS, asdict(costs))

    def _turn(self, part: Part | None) -> None:
        now = (time.monotonic(), _cpu_seconds())
        if self._part:
            self._seconds[self._part.value] += now[0] - self._turned[0]
            self._cpu_seconds[self._part.value] += now[1] - self._turned[1]
        self._part, self._turned = part, now


def _cpu_seconds() -> float:
    return sum(os.times()[:4])
