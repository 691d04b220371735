"""How long the parts of a run take and the most memory that it holds, kept in its folder: later estimates learn from it."""

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

FILE: Final = "costs.json"
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
        costs = cls(**json.loads((folder / FILE).read_text(encoding="utf-8")))
        if not all(isinstance(value, (int, float)) and value >= 0 for value in costs.seconds.values()):
            raise ValueError(f"{folder / FILE} has a part that did not take a number of seconds")
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
            write_json(folder / FILE, asdict(costs))

    def _turn(self, part: Part | None) -> None:
        now = (time.monotonic(), _cpu_seconds())
        if self._part:
            self._seconds[self._part.value] += now[0] - self._turned[0]
            self._cpu_seconds[self._part.value] += now[1] - self._turned[1]
        self._part, self._turned = part, now


def _cpu_seconds() -> float:
    return sum(os.times()[:4])
