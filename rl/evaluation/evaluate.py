"""Measures a version on held-out rows, beside its base model and the version in use, and asks the gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from django.db import transaction

from rl.base.records import Report
from rl.config import METHODS, AgentConfig, config_class, find_method, find_rows
from rl.evaluation.contest import Contest
from rl.evaluation.gate import REWARD, SUCCESS, Verdict, decide
from rl.evaluation.guards import measure as guarding
from rl.evaluation.guards.measure import Guards, Watch, skip
from rl.evaluation.held_out import HeldOut, latest_training_set, never_learned
from rl.evaluation.lm_eval import run as lm_eval
from rl.evaluation.lm_eval.results import TaskScores
from rl.evaluation.measures import preference as pairs
from rl.evaluation.measures import reward as rewards
from rl.evaluation.measures import success as successes
from rl.lm.model_path import base_of, is_reward_model
from rl.models import Agent, Deployment, Evaluation, ModelVersion, TrainingRun, TrainingSet
from rl.operations.webhooks.events import version_judged
from rl.scoring import rollouts
from rl.training.calibration import calibration
from rl.versions import versions


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is measured, and the run that made it, if there was one."""

    agent: Agent
    base_model: str
    weights: Path
    """An adapter, or a whole model."""
    current: ModelVersion | None
    max_length: int
    run: TrainingRun | None = None
    task: TaskScores | None = None

    def on_task(self, file: Path | None, report: Report) -> _Subject:
        """Measured on a task of lm-eval, if one is named."""
        return replace(self, task=lm_eval.measure(self.contest, file, report)) if file else self

    @property
    def contest(self) -> Contest:
        current = self.current
        return Contest(
            self.base_model,
            self.weights,
            (current.base_model, versions.weights_directory(current)) if current else None,
            self.max_length,
            self.answer_length,
        )

    @property
    def answer_length(self) -> int:
        return int((self.run.config if self.run else {}).get("max_new_tokens", self.agent.response_length))

    @property
    def margin(self) -> float:
        return self.agent.gate_margin

    def watch(self, rows: Sequence[pairs.Row], report: Report) -> Watch:
        scorer = partial(rollouts.scorer_of_run, self.agent, self.run.options if self.run else {})
        lengths = {"max_length": self.max_length, "most_tokens": min(self.answer_length, self.max_length // 2)}
        return guarding.watch(self.agent, rows, scorer, **lengths, report=report, task=self.task)


@dataclass(frozen=True, slots=True)
class _Measured:
    fields: dict[str, Any]
    """The fields of an Evaluation without its report: counts, accuracies or mean rewards, the verdict."""
    report: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Scale:
    """What a missing held-out prompt costs."""

    ratings_per_prompt: float
    things: str = "ratings"


def evaluate(
    version: ModelVersion,
    training_set: TrainingSet,
    report: Report,
    *,
    against_base: bool = False,
    task: Path | None = None,
) -> Evaluation:
    """Measures all three models on the set's held-out rows and stores the gate's verdict: by preference accuracy, or where
    the rows are prompts, by the reward of fresh answers (then the accuracies are mean rewards), or where they are tasks, by
    how many are solved (then they are shares of these). A broken guard rail rejects. ``task``: a file of lm-eval, for both
    versions besides."""
    subject = _of_version(version, against_base).on_task(task, report)
    measured = _measure(subject, training_set, never_learned(training_set, version, subject.current), report)
    with transaction.atomic():
        evaluation = Evaluation.objects.create(
            version=version,
            training_set=training_set,
            against=subject.current,
            report=measured.report,
            **measured.fields,
        )
        version_judged(evaluation)
    return evaluation


def evaluate_checkpoint(
    agent: Agent, weights: Path, report: Report, *, against_base: bool = False, task: Path | None = None
) -> dict[str, Any]:
    """The same for the directory of an adapter or a whole model that is not a version; nothing is stored."""
    training_set = latest_training_set(agent, scores=is_reward_model(weights))
    subject = _of_checkpoint(agent, weights, against_base).on_task(task, report)
    measured = _measure(subject, training_set, never_learned(training_set, subject.current), report)
    return {"checkpoint": str(weights), **_as_document(measured)}


def evaluate_pairs(
    agent: Agent,
    measured: ModelVersion | Path,
    held_out: HeldOut,
    report: Report,
    *,
    against_base: bool = False,
    task: Path | None = None,
) -> dict[str, Any]:
    """A version, or a checkpoint's directory, on pairs of one's own; nothing is stored."""
    if isinstance(measured, Path):
        subject, origin = _of_checkpoint(agent, measured, against_base), {"checkpoint": str(measured)}
    else:
        subject, origin = _of_version(measured, against_base), {"version": measured.name}
    subject = subject.on_task(task, report)
    outcome = _complete(_preference(subject, _Scale(1, "prompts"), held_out, report), subject, held_out)
    return {"agent": agent.name, **origin, **_as_document(outcome)}


def _as_document(measured: _Measured) -> dict[str, Any]:
    return {**{name: measured.fields[name] for name in ("pairs", "verdict", "ratings_needed")}, **measured.report}


def _of_version(version: ModelVersion, against_base: bool) -> _Subject:
    current = None if against_base or version.is_reward_model else _version_in_use(version)
    weights = versions.weights_directory(version)
    return _Subject(version.agent, version.base_model, weights, current, version.run.config["max_length"], version.run)


def _of_checkpoint(agent: Agent, weights: Path, against_base: bool) -> _Subject:
    current = None if against_base else Deployment.champion(agent)
    return _Subject(agent, base_of(weights), weights, current, agent.context_length)


def _version_in_use(version: ModelVersion) -> ModelVersion | None:
    """What ``version`` is compared with; its parent when it is in use itself."""
    champion = Deployment.champion(version.agent)
    return version.parent if champion == version else champion


def _measure(subject: _Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> _Measured:
    measure = _MEASURES[find_rows(training_set.method).measure]
    return _complete(measure(subject, training_set, held_out, report), subject, held_out)


def _complete(measured: _Measured, subject: _Subject, held_out: HeldOut) -> _Measured:
    task = {"task": asdict(subject.task)} if subject.task else {}
    return replace(measured, report={**measured.report, "learned": held_out.learned, **task})


def _preference(subject: _Subject, scale: _Scale, held_out: HeldOut, report: Report) -> _Measured:
    if is_reward_model(subject.weights):
        return _of_reward_model(subject, scale, held_out, report)
    watch = subject.watch(held_out.rows, report)
    scores = pairs.compare(subject.contest, held_out, report, also=watch.speaker)
    guards = watch.guards()
    verdict = guards.over(_ask_gate(scores, scale, held_out, subject.margin))
    return _describe_ranking(scores, verdict, guards, subject.margin)


def _of_reward_model(subject: _Subject, scale: _Scale, held_out: HeldOut, report: Report) -> _Measured:
    """Worse than guessing is rejected; nothing is promoted."""
    scores = pairs.compare(subject.contest, held_out, report, "reward_model")
    verdict = _ask_gate(scores, scale, held_out, 0.0)
    if verdict.decision != "reject":
        reason = f"{verdict.reason} It is a reward model: it scores answers, and is never promoted."
        verdict = replace(verdict, decision="undecided", reason=reason)
    measured = _describe_ranking(scores, verdict, skip("a reward model gives no answers", subject.agent, None), 0.0)
    return replace(measured, report={**measured.report, **calibration(scores.rows, scores.new)})


def _ask_gate(scores: pairs.Comparison, scale: _Scale, held_out: HeldOut, margin: float) -> Verdict:
    return decide(
        scores.new,
        scores.current,
        ratings_per_prompt=scale.ratings_per_prompt,
        held_out_share=held_out.share,
        margin=margin,
        things=scale.things,
    )


def _describe_ranking(scores: pairs.Comparison, verdict: Verdict, guards: Guards, margin: float) -> _Measured:
    fields = {
        "pairs": len(scores.rows),
        "prompts": len({score.prompt_key for score in scores.new}),
        "accuracy": pairs.accuracy_of(scores.new).value,
        "base_accuracy": pairs.accuracy_of(scores.base).value,
        "against_accuracy": pairs.accuracy_of(scores.current).value,
        "verdict": verdict.decision,
        "ratings_needed": verdict.ratings_needed,
    }
    return _Measured(fields, {**pairs.describe(scores, verdict, margin), "guards": guards.report})


def _preference_on_set(subject: _Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> _Measured:
    prompts = max(1, training_set.stats.get("prompts", 1))
    scale = _Scale(max(1.0, training_set.feedback_count / prompts))
    return _preference(subject, scale, held_out, report)


def _rewards(subject: _Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> _Measured:
    scorer = rollouts.scorer_of_run(subject.agent, subject.run.options if subject.run else {})
    watch = subject.watch(held_out.rows, report)
    earnings = rewards.compare(subject.contest, held_out.rows, scorer, report, watch.speaker)
    return _describe_earnings(earnings, held_out, "reward", watch.guards(), subject.margin)


def _success(subject: _Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> _Measured:
    """Played as in its own training, or of a folder of unknown origin, as in the newest training with these tasks."""
    played = find_rows(training_set.method)
    run = subject.run if subject.run and find_method(subject.run.method).rows == played else training_set.runs.first()
    method = run.method if run else next(name for name, known in METHODS.items() if known.rows == played)
    config = config_class(method)(**run.config) if run else subject.agent.training_config(method)
    config = config.with_overrides({"environment": training_set.stats["environment"]})
    assert isinstance(config, AgentConfig)  # noqa: S101  the method's own
    earnings = successes.compare(subject.contest, held_out.rows, config, report)
    guards = skip("tasks are played, not answered", subject.agent, subject.task)
    return _describe_earnings(earnings, held_out, "success", guards, subject.margin)


def _describe_earnings(
    earnings: rewards.Earnings, held_out: HeldOut, measure: str, guards: Guards, margin: float
) -> _Measured:
    words = SUCCESS if measure == "success" else REWARD
    verdict = guards.over(rewards.judge(earnings, held_out.share, words, margin))
    fields = {
        "pairs": len(earnings.rows),
        "prompts": len(earnings.rows),
        "accuracy": earnings.mean("new"),
        "base_accuracy": earnings.mean("base"),
        "against_accuracy": earnings.mean("current"),
        "verdict": verdict.decision,
        "ratings_needed": verdict.ratings_needed,
    }
    return _Measured(fields, {**rewards.describe(earnings, verdict, measure, margin), "guards": guards.report})


_MEASURES: dict[str, Callable[[_Subject, TrainingSet, HeldOut, Report], _Measured]] = {
    "preference": _preference_on_set,
    "reward": _rewards,
    "success": _success,
}
"""By ``Rows.measure`` of the set."""
