"""Measures a version on held-out rows, beside its base model and the version in use, and asks the gate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rl.data_formatter import read_training_rows
from rl.dataset_builder import is_held_out
from rl.errors import NotEnoughData, UsageError
from rl.evaluation import SCORERS, rewarded
from rl.evaluation.gate import Verdict, decide
from rl.evaluation.held_out import CONTRASTS, contrasts
from rl.evaluation.statistics import mean_interval, prompt_accuracy
from rl.leaves import leaf
from rl.models import REWARD_MODEL, Agent, Deployment, Evaluation, ModelVersion, TrainingRun, TrainingSet
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
class HeldOut:
    """Held-out contrasts that none of the versions compared has learned from."""

    rows: list[Mapping[str, Any]]
    relative: bool
    """They compare answers to two prompts, by how much likelier than under the base model they became."""
    share: float
    """Of the prompts, 0 to 1."""
    learned: int
    """Rows of the set that were left out."""


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
    the rows are prompts, by the reward of fresh answers (then the accuracies are mean rewards)."""
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
    of_kind = _rewards if training_set.method == "prompts" else _preference
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


def _rewards(subject: _Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> _Measured:
    current, run = subject.current, subject.run
    contest = rewarded.Contest(
        subject.base_model,
        subject.weights,
        (current.base_model, versions.weights_directory(current)) if current else None,
        subject.max_length,
        int((run.config if run else {}).get("max_new_tokens", subject.agent.response_length)),
    )
    scorer = rollouts.scorer_of_run(subject.agent, run.options if run else {})
    found = rewarded.earned(contest, held_out.rows, scorer, report)
    verdict = rewarded.judge(found, held_out.share)
    fields = {
        "pairs": len(found.rows),
        "prompts": len(found.rows),
        "accuracy": found.mean("new"),
        "base_accuracy": found.mean("base"),
        "against_accuracy": found.mean("current"),
        "verdict": verdict.decision,
        "ratings_needed": verdict.ratings_needed,
    }
    return _Measured(fields, rewarded.describe(found, verdict))


def never_learned(training_set: TrainingSet, *compared: ModelVersion | None) -> HeldOut:
    """A version that was trained with a smaller held-out share has learned from some prompts that the set holds out. The
    split is nested, so what the smallest share holds out none of them has seen."""
    others = TrainingSet.objects.filter(runs__version__in=[version for version in compared if version])
    share = min([training_set.val_split, *others.values_list("val_split", flat=True)])
    method = training_set.method
    rows = list(read_training_rows(training_set.directory / "heldout.jsonl", method))
    kept = rows
    if share < training_set.val_split:
        kept = [row for row in rows if is_held_out(training_set.agent.name, row["split_key"], share)]
    return HeldOut(contrasts(method, kept), method == "kto", share, len(rows) - len(kept))


def find_version(agent: Agent, name: str | None = None) -> ModelVersion:
    """The agent's version of that name, or its newest that answers. Raises UsageError that lists those there are."""
    answering = agent.versions.exclude(run__method=REWARD_MODEL)
    if version := (agent.versions.filter(name__iexact=name) if name else answering).first():
        return version
    known = ", ".join(agent.versions.values_list("name", flat=True)[:20])
    raise UsageError(f"{agent.name} has no version{f' {name!r}' if name else ''}; there are: {known or 'none yet'}")


def latest_training_set(agent: Agent, version: ModelVersion | None = None) -> TrainingSet:
    """Its held-out prompts are those of all earlier sets and newer ones. A set of prompts measures by reward: it comes first
    for a version that learned from such a set, and last for all others. Raises NotEnoughData when there is none."""
    sets = agent.training_sets.filter(heldout_rows__gt=0, method__in=CONTRASTS)
    learned_from = TrainingSet.objects.filter(runs__version=version).first() if version else None
    if version and version.is_reward_model:
        sets = sets.filter(method=REWARD_MODEL)
    prompts, others = sets.filter(method="prompts"), sets.exclude(method="prompts")
    ranked = (prompts, others) if learned_from and learned_from.method == "prompts" else (others, prompts)
    if training_set := ranked[0].first() or ranked[1].first():
        return training_set
    raise NotEnoughData(f"{agent.name} has no held-out rows yet: they are made by the first training run")


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
