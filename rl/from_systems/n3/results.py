"""N3's ``training_results.json``, beside the weights of each version of an agent that N3's clients score.

Exactly N3's names: model_path, reward_model_path, feedback_count, final_reward_mean, final_reward_std, training_steps,
reward_history, kl_history, loss_history.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile
from rl.base.files import write_json
from rl.from_systems.n3 import returns
from rl.from_systems.n3.policies import REWARD_MODEL, model_path
from rl.models import Agent, Feedback, TrainingRun
from rl.runs.supervisor import run_ended
from rl.versions import versions

FILE = "training_results.json"
SOURCES = ("policies", "n3")
"""Where feedback came from: N3's calls, and its files."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    model_path: str
    reward_model_path: str | None
    feedback_count: int
    final_reward_mean: float | None
    """As in ``rl.from_systems.n3.returns``; None where the method rewards nothing."""
    final_reward_std: float | None
    training_steps: int
    reward_history: list[float]
    kl_history: list[float]
    loss_history: list[float]

    def save(self, path: Path | str) -> None:
        write_json(Path(path), asdict(self))

    @classmethod
    def load(cls, path: Path | str) -> TrainingResult:
        """Raises BadFile for a file that is not one."""
        try:
            return cls(**json.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise BadFile(path, f"is not N3's result of a training ({error})") from error


def connect() -> None:
    run_ended.connect(_write_results, dispatch_uid="n3 training results")


def _write_results(run: TrainingRun, **signal: Any) -> None:
    if run.state == TrainingRun.State.SUCCEEDED and run.version is not None and _is_scored_by_n3(run.agent):
        result_of(run).save(versions.version_directory(run.version) / FILE)


def _is_scored_by_n3(agent: Agent) -> bool:
    return Feedback.objects.filter(agent=agent, source__in=SOURCES).order_by().exists()


def result_of(run: TrainingRun) -> TrainingResult:
    """The result of a run that has made a version."""
    assert run.version is not None  # noqa: S101  the caller's
    history = returns.histories([run.pk]).get(run.pk, returns.Histories())
    return TrainingResult(
        model_path=model_path(run, run.version),
        reward_model_path=run.options.get(REWARD_MODEL) or None,
        feedback_count=run.version.feedback_count,
        final_reward_mean=history.mean,
        final_reward_std=history.std,
        training_steps=run.step,
        reward_history=history.reward,
        kl_history=history.kl,
        loss_history=history.loss,
    )
