"""Measures a version on held-out rows, beside its base model and the version in use, and asks the gate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rl.config import AgentConfig, config_class
from rl.evaluation import SCORERS, rewarded, solved
from rl.evaluation.choosing import HeldOut, latest_training_set, never_learned
from rl.evaluation.gate import REWARD, SUCCESS, Verdict, decide
from rl.evaluation.statistics import mean_interval, prompt_accuracy
from rl.leaves import leaf
from rl.models import Agent, Deployment, Evaluation, ModelVersion, TrainingRun, TrainingSet
from rl.records import Interval, PairScore, Report
from rl.training import rollouts, versions
from rl.training.calibration import expected_calibration_error
from rl.training.model_path import base_of, is_reward_model

WORST_EXAMPLES = 10
NEAR_TIE = 0.5
"""Nats. In bf16 the log-probability of an answer is uncertain by about this much."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The held-out pairs that three models could score, as each of them sees them: four lists in the same order."""

    rows: list[Mapping[str, Any]]
    new: list[PairScore]
    base: list[PairScore]
    current: list[PairScore]
    """Of the version in use; the base model's when none is."""
    unscored: int
    """Pairs whose prompt is too long for at least one of the models; they are in none of the lists."""


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


@dataclass(frozen=True, slots=True)
class _Measured:
    fields: dict[str, Any]
    """Of an Evaluation, but for the report: counts, accuracies or mean rewards, the verdict."""
    report: dict[str, Any]


def evaluate(
    version: ModelVersion, training_set: TrainingSet, report: Report, *, against_base: bool = False
) -> Evaluation:
    """Measures all three models on the set's held-out rows and stores the gate's verdict: by preference accuracy, or where
    the rows are prompts, by the reward of fresh answers (then the accuracies are mean rewards), or where they are tasks, by
    how many are solved (then they are shares of these)."""
    current = None if against_base or version.is_reward_model else _version_in_use(version)
    weights = versions.weights_directory(version)
    max_length = version.run.config["max_length"]
    subject = _Subject(version.agent, version.base_model, weights, current, max_length, version.run)
    measured = _measure(subject, training_set, never_learned(training_set, version, current), report)
    return Evaluation.objects.create(
        version=version, training_set=training_set, against=current, report=measured.report, **measured.fields
    )


def evaluate_checkpoint(agent: Agent, weights: Path, report: Report, *, against_base: bool = False) -> dict[str, Any]:
    """The same for the directory of an adapter or a whole model that is no version; nothing is stored."""
    training_set = latest_training_set(agent)
    current = None if against_base else Deployment.champion(agent)
    subject = _Subject(agent, base_of(weights), weights, current, agent.context_length)
    measured = _measure(subject, training_set, never_learned(training_set, current), report)
    shown = {name: measured.fields[name] for name in ("pairs", "verdict", "ratings_needed")}
    return {"checkpoint": str(weights), **shown, **measured.report}


def _measure(subject: _Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> _Measured:
    of_kind = {"prompts": _rewards, "agent": _success}.get(training_set.method, _preference)
    measured = of_kind(subject, training_set, held_out, report)
    return replace(measured, report={**measured.report, "learned": held_out.learned})


def _preference(subject: _Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> _Measured:
    current, length = subject.current, subject.max_length
    scores_answers = is_reward_model(subject.weights)
    measure = "reward_model" if scores_answers else "preference"
    scores = compare(subject.base_model, subject.weights, current, held_out, length, report, measure)
    verdict = judge(scores, training_set, held_out.share)
    if scores_answers:
        verdict = _of_reward_model(verdict)
    fields = {
        "pairs": len(scores.rows),
        "prompts": len({score.prompt_key for score in scores.new}),
        "accuracy": accuracy_of(scores.new).value,
        "base_accuracy": accuracy_of(scores.base).value,
        "against_accuracy": accuracy_of(scores.current).value,
        "verdict": verdict.decision,
        "ratings_needed": verdict.ratings_needed,
    }
    found = describe(scores, verdict)
    if scores_answers:
        found["calibration_error"] = expected_calibration_error([score.margin for score in scores.new])
    return _Measured(fields, found)


def _of_reward_model(verdict: Verdict) -> Verdict:
    """Worse than guessing is rejected; nothing is promoted."""
    if verdict.decision == "reject":
        return verdict
    reason = f"{verdict.reason} It is a reward model: it scores answers, and is never promoted."
    return replace(verdict, decision="undecided", reason=reason)


def _contest(subject: _Subject) -> rewarded.Contest:
    current, run = subject.current, subject.run
    return rewarded.Contest(
        subject.base_model,
        subject.weights,
        (current.base_model, versions.weights_directory(current)) if current else None,
        subject.max_length,
        int((run.config if run else {}).get("max_new_tokens", subject.agent.response_length)),
    )


def _rewards(subject: _Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> _Measured:
    scorer = rollouts.scorer_of_run(subject.agent, subject.run.options if subject.run else {})
    return _earned(rewarded.earned(_contest(subject), held_out.rows, scorer, report), held_out, "reward")


def _success(subject: _Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> _Measured:
    """Played as in its own training, or of a folder of unknown origin, as in the newest training with these tasks."""
    run = subject.run if subject.run and subject.run.method == "agent" else training_set.runs.first()
    config = config_class("agent")(**run.config) if run else subject.agent.training_config("agent")
    config = config.with_overrides({"environment": training_set.stats["environment"]})
    assert isinstance(config, AgentConfig)  # noqa: S101  the method's own
    return _earned(solved.solved(_contest(subject), held_out.rows, config, report), held_out, "success")


def _earned(found: rewarded.Earned, held_out: HeldOut, measure: str) -> _Measured:
    verdict = rewarded.judge(found, held_out.share, SUCCESS if measure == "success" else REWARD)
    fields = {
        "pairs": len(found.rows),
        "prompts": len(found.rows),
        "accuracy": found.mean("new"),
        "base_accuracy": found.mean("base"),
        "against_accuracy": found.mean("current"),
        "verdict": verdict.decision,
        "ratings_needed": verdict.ratings_needed,
    }
    return _Measured(fields, rewarded.describe(found, verdict, measure))


def _version_in_use(version: ModelVersion) -> ModelVersion | None:
    """What ``version`` is compared with; its parent when it is in use itself."""
    champion = Deployment.champion(version.agent)
    return version.parent if champion == version else champion


def compare(
    base_model: str,
    weights: Path,
    current: ModelVersion | None,
    held_out: HeldOut,
    max_length: int,
    report: Report,
    measure: str = "preference",
) -> Comparison:
    """Loads each base model once; there may be no held-out rows."""
    rows, relative = held_out.rows, held_out.relative
    if not rows:
        return Comparison([], [], [], [], 0)
    score = leaf(SCORERS[measure]).score_versions
    compared: dict[str, Path | None] = {"base": None, "new": weights}
    shared = current is not None and current.base_model == base_model
    if current is not None and shared:
        compared["current"] = versions.weights_directory(current)
    scores = score(base_model, compared, rows, max_length=max_length, report=report, relative=relative)
    if current is not None and not shared:
        other = {"current": versions.weights_directory(current)}
        scores |= score(current.base_model, other, rows, max_length=max_length, report=report, relative=relative)
    return _scored_by_all(rows, scores["new"], scores["base"], scores.get("current", scores["base"]))


def _scored_by_all(rows: Sequence[Mapping[str, Any]], *models: Sequence[PairScore | None]) -> Comparison:
    """``models``: the new version, the base model, the version in use. Another base model may cut the same text to
    another number of tokens, so a prompt can be too long for one of them only."""
    whole = [(row, *scores) for row, *scores in zip(rows, *models, strict=True) if None not in scores]
    kept, new, base, current = (list(column) for column in zip(*whole, strict=True)) if whole else ([], [], [], [])
    return Comparison(kept, new, base, current, unscored=len(rows) - len(whole))


def judge(scores: Comparison, training_set: TrainingSet, held_out_share: float) -> Verdict:
    prompts = max(1, training_set.stats.get("prompts", 1))
    return decide(
        scores.new,
        scores.current,
        ratings_per_prompt=max(1.0, training_set.feedback_count / prompts),
        held_out_share=held_out_share,
    )


def accuracy_of(scores: Sequence[PairScore]) -> Interval:
    """0.5 within [0, 1] when nothing is held out: nothing is known."""
    return prompt_accuracy(scores) if scores else Interval(0.5, 0.0, 1.0)


def describe(scores: Comparison, verdict: Verdict) -> dict[str, Any]:
    """What the report page and ``--output`` show."""
    return {
        "reason": verdict.reason,
        "difference": asdict(verdict.difference),
        "models": {name: _figures(getattr(scores, name)) for name in ("new", "base", "current")},
        "unscored": scores.unscored,
        "worst": _worst(scores.new, scores.rows),
    }


def _figures(scores: Sequence[PairScore]) -> dict[str, Any]:
    margins: dict[str, list[float]] = {}
    for score in scores:
        margins.setdefault(score.prompt_key, []).append(score.margin)
    interval = mean_interval(margins)
    return {
        "accuracy": asdict(accuracy_of(scores)),
        "margin": asdict(interval) if interval else None,
        "near_ties": sum(abs(score.margin) < NEAR_TIE for score in scores),
    }


def _worst(scores: Sequence[PairScore], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The pairs that the model gets most wrong; a margin that is no number comes first and is null."""
    ranked = sorted(zip(scores, rows, strict=True), key=lambda pair: _finite(pair[0].margin, -math.inf))
    return [
        {
            "margin": _finite(score.margin, None),
            "prompt": row["prompt"][-1]["content"],
            **({"rejected_prompt": row["rejected_prompt"][-1]["content"]} if "rejected_prompt" in row else {}),
            "chosen": row["chosen"][-1]["content"],
            "rejected": row["rejected"][-1]["content"],
        }
        for score, row in ranked[:WORST_EXAMPLES]
    ]


def _finite(value: float, otherwise: Any) -> Any:
    return value if math.isfinite(value) else otherwise
