"""Writes N3's ``training_results.json`` beside the weights of each version of an agent that N3's clients score."""

from __future__ import annotations

from typing import Any

from rl.from_systems.n3 import returns
from rl.from_systems.n3.policies import REWARD_MODEL, model_path
from rl.from_systems.n3.result_file import FILE, Histories, TrainingResult
from rl.models import Agent, Feedback, TrainingRun
from rl.runs.supervisor import run_ended
from rl.versions import versions

SOURCES = ("policies", "n3")
"""Where feedback came from: N3's calls, and its files."""


def connect() -> None:
    run_ended.connect(_write_results, dispatch_uid="n3 training results")


def _write_results(run: TrainingRun, **signal: Any) -> None:
    if run.state == TrainingRun.State.SUCCEEDED and run.version is not None and _is_scored_by_n3(run.agent):
        result_of(run).save(versions.version_directory(run.version) / FILE)


def _is_scored_by_n3(agent: Agent) -> bool:
    return Feedback.objects.filter(agent=agent, source__in=SOURCES).order_by().exists()


def result_of(run: TrainingRun) -> TrainingResult:
    """The result of a run that has made a version. The final reward is that of its steps, as N3's, where it was rewarded in
    them, else that of the version's fresh answers."""
    assert run.version is not None  # noqa: S101  the caller's
    history = returns.histories([run.pk]).get(run.pk, Histories())
    fresh = returns.fresh_rewards([run.version.pk]).get(run.version.pk, {})
    return TrainingResult(
        model_path=model_path(run, run.version),
        reward_model_path=run.options.get(REWARD_MODEL) or None,
        feedback_count=run.version.feedback_count,
        final_reward_mean=history.mean if history.reward else fresh.get("rewardMean"),
        final_reward_std=history.std if history.reward else fresh.get("rewardStd"),
        training_steps=run.step,
        reward_history=history.reward,
        kl_history=history.kl,
        loss_history=history.loss,
    )
