"""Which stages a run has gone through and how fast the present one is, kept in its folder for the pages to read."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rl.base.files import write_json

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
