"""How fast this machine works with a base model: timed once by a process of its own, and kept.

What is kept holds for the same device, threads, torch, model and precision; anything else is timed anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from rl.base.files import write_json
from rl.base.records import Report
from rl.config import TrainingConfig, find_method
from rl.hardware import HardwareConfig, ModelShape, Speed, assumed_speed, precision_here, trains_in_bf16
from rl.runs.child_environment import library_variables
from rl.runs.past_runs import device_of
from rl.serving import machine

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
        command = [sys.executable, "-m", TIMING, str(self.folder), find_method(method).module, self._precision(config)]
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
        return {
            "device": list(device_of(asdict(self.hardware))),
            "threads": _threads_variable().get("OMP_NUM_THREADS", ""),
            "torch": _torch_version(),
            "model": _mark_of(self.folder),
            "shape": asdict(self.shape),
            "precision": self._precision(config),
        }

    def _precision(self, config: TrainingConfig) -> str:
        return precision_here(config, self.hardware)


def _mark_of(folder: Path) -> str:
    """SHA-256 of what tells the model's layers and template, wherever it lies."""
    described = [folder / name for name in _DESCRIBED if (folder / name).is_file()]
    return hashlib.sha256(b"\n".join(file.read_bytes() for file in described)).hexdigest()


def _threads_variable() -> dict[str, str]:
    """As a run takes them."""
    if threads := os.environ.get("OMP_NUM_THREADS") or machine.training_threads(machine.serving_threads()):
        return {"OMP_NUM_THREADS": str(threads)}
    return {}


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""
