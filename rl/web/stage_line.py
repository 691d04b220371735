"""The way of a run in seven steps, from its data to what serves its version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from rl.models import TrainingRun
from rl.runs.stage_log import Stages

STEPS = ("data", "base scored", "training", "answers", "judged", "exported", "served")
_BEGINNINGS = {
    "scoring under the base model": 1,
    "training": 2,
    "imitating": 2,
    "evaluating": 3,
    "scoring": 3,
    "answering as": 3,
    "solving tasks as": 3,
    "fresh answers": 3,
    "what the judge sees": 4,
    "judging the answers": 4,
    "asking judge": 4,
    "rewarding the answers": 4,
    "exporting GGUF": 5,
    "judging the exported file": 5,
    "starting llama.cpp": 6,
    "uploading to Ollama": 6,
    "registering with Ollama": 6,
}
"""What a stage's name begins with, to the number of its step; the first that fits counts. Other stages belong to the step
that they come in."""


class Progress(StrEnum):
    DONE = "done"
    NOW = "now"
    WAITING = "waiting"
    STOPPED = "stopped"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    progress: Progress


def stage_line(run: TrainingRun, stages: Stages) -> list[Step]:
    """Two queries at most."""
    if run.state == run.State.SUCCEEDED:
        done = _results(run)
        return [Step(name, Progress.DONE if is_done else Progress.SKIPPED) for name, is_done in done]
    reached = _find_furthest(run, stages)
    return [Step(name, _progress(run, number, reached)) for number, name in enumerate(STEPS)]


def _progress(run: TrainingRun, number: int, reached: int) -> Progress:
    if number < reached:
        return Progress.DONE
    if number > reached or run.state == run.State.QUEUED:
        return Progress.WAITING
    return Progress.NOW if run.is_active else Progress.STOPPED


def _find_furthest(run: TrainingRun, stages: Stages) -> int:
    by_row = 3 if run.version_id else (2 if run.step else 0)
    return max([by_row, *_numbers([*stages.names, run.stage])])


def _numbers(names: Iterable[str]) -> list[int]:
    return [next((number for start, number in _BEGINNINGS.items() if name.startswith(start)), 0) for name in names]


def _results(run: TrainingRun) -> list[tuple[str, bool]]:
    """A run that ended well: what it was not to do, or the gate did not allow, was left out."""
    version = run.version
    exported = version is not None and version.artifacts.exists()
    served = version is not None and version.deployments.exists()
    return list(zip(STEPS, (True, True, True, True, True, exported, served), strict=True))
