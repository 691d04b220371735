"""Whether the file that will be served ranks held-out pairs as the weights do that it was made from.

Quantising changes every weight a little, and llama.cpp computes in its own way: what is served is not quite what the gate
has judged. The file scores a sample of the same pairs, and may not lose more than a tolerance."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction

from rl.base.errors import UsageError
from rl.base.leaves import leaf
from rl.base.measurements import PairScore
from rl.base.records import Report
from rl.config import find_rows
from rl.config.levels import LEVELS
from rl.evaluation import MODELS, SCORERS
from rl.evaluation.evaluate import evaluate
from rl.evaluation.held_out import never_learned
from rl.evaluation.measures.preference import Row, accuracy_of, figures, sample
from rl.evaluation.stats.intervals import counts_of, difference_interval, prompt_changes
from rl.export.llama_cpp import process as llama_process
from rl.export.release import artifact_path
from rl.models import Artifact, Evaluation, ModelVersion, TrainingSet
from rl.operations.webhooks.events import version_judged

TOLERANCE = 0.03
"""Loss of accuracy against the weights, beside the agent's margin, that is put down to rounding."""
FEWEST_LOST = 2
"""Prompts; one that tips over proves nothing."""


@dataclass(frozen=True, slots=True)
class _Scores:
    """The same pairs as the file, the weights that it was made from, the base model and the version in use see them."""

    rows: list[Row]
    file: list[PairScore]
    weights: list[PairScore]
    base: list[PairScore]
    current: list[PairScore]


def judge(version: ModelVersion, artifact: Artifact, training_set: TrainingSet, report: Report) -> Evaluation | None:
    """Stores *reject* where the file loses too much, else the verdict on the weights, which then holds for the file too.
    None where it cannot be judged, which the log says with the reason.

    Compares with the newest evaluation of the weights on this set, and makes one where there is none. Raises ExportFailed
    where llama.cpp cannot use the file."""
    if reason := _why_not_judged(version, artifact, training_set):
        report("log", {"text": f"the exported file is not judged: {reason}"})
        return None
    of_weights = _evaluation_of_weights(version, training_set) or evaluate(version, training_set, report)
    report("stage", {"name": "judging the exported file"})
    rows = never_learned(training_set, version, of_weights.against).rows
    scores = _score(version, artifact, sample(rows), of_weights.report["sampled"], report)
    if not scores.rows:
        report("log", {"text": "the exported file is not judged: no pairs are held out"})
        return None
    return _store_verdict(artifact, of_weights, scores)


def find_file(version: ModelVersion, level: str) -> Artifact:
    """The version's GGUF file of that level. Raises UsageError that lists those there are."""
    if artifact := version.gguf(level):
        return artifact
    files = version.artifacts.filter(kind=Artifact.Kind.GGUF)
    there = ", ".join(files.values_list("quantization", flat=True)) or "none yet"
    raise UsageError(
        f"{version} has no GGUF file at {level}; there are: {there}. Export one: manage.py export_model "
        f"--agent {version.agent.name} --version {version.name} --quantization {level}"
    )


def _why_not_judged(version: ModelVersion, artifact: Artifact, training_set: TrainingSet) -> str:
    if artifact.kind != Artifact.Kind.GGUF:
        return f"it is {artifact.get_kind_display()}, and only whole GGUF files are"
    kind = find_rows(training_set.method)
    if not kind.has_answers:
        return f"{version} is measured by what it answers, not by pairs"
    newest = version.evaluations.filter(training_set=training_set, artifact=None).first()
    if newest and newest.report.get("measure") == "right":
        return f"{version} is measured by how many answers are right, not by pairs"
    return "" if llama_process.is_available() else "the package xllamacpp is not installed"


def _evaluation_of_weights(version: ModelVersion, training_set: TrainingSet) -> Evaluation | None:
    evaluations = version.evaluations.filter(training_set=training_set, artifact=None, report__has_key="sampled")
    stored = evaluations.select_related("against").first()
    # reports of earlier releases lack the base model's margins
    complete = stored and all(len(margins) > len(MODELS) for margins in stored.report["sampled"].values())
    return stored if complete else None


def _score(
    version: ModelVersion, artifact: Artifact, rows: Mapping[str, Row], sampled: Mapping[str, Any], report: Report
) -> _Scores:
    """``sampled``: of the report, key of a pair to its margins; of pairs that the weights could score."""
    keys = sorted(rows.keys() & sampled.keys(), key=lambda key: str(rows[key]["prompt_key"]))
    candidates = [rows[key] for key in keys]
    encoded = leaf(SCORERS["preference"]).encoded_pairs(
        version.base_model,
        candidates,
        max_length=version.trained.run.config["max_length"],
        report=report,
        manner=version.manner,
    )
    fitting = [position for position, both in enumerate(encoded) if both is not None]
    sequences = [sequence for position in fitting for sequence in encoded[position]]
    values = llama_process.token_log_probs(artifact_path(artifact), sequences, report=report) if sequences else []
    scored = [candidates[position] for position in fitting]
    margins = [
        [math.nan if margin is None else float(margin) for margin in sampled[keys[position]]] for position in fitting
    ]
    *stored, of_base = (
        [PairScore(row["prompt_key"], of_row[column], 0.0) for row, of_row in zip(scored, margins, strict=True)]
        for column in range(len(MODELS) + 1)
    )
    file = [PairScore(row["prompt_key"], values[2 * n], values[2 * n + 1]) for n, row in enumerate(scored)]
    return _Scores(scored, list(map(PairScore.relative_to, file, of_base)), *stored)


def _store_verdict(artifact: Artifact, of_weights: Evaluation, scores: _Scores) -> Evaluation:
    margin = of_weights.version.agent.gate_margin
    loss, summary = _describe_loss(artifact.quantization, scores, margin)
    verdict = Evaluation.Verdict.REJECT if loss else of_weights.verdict
    praise = (
        f"The file at {artifact.quantization} holds what the weights promise: {summary}. {of_weights.report['reason']}"
    )
    changes = prompt_changes(scores.file, scores.weights)
    models = {"new": scores.file, "weights": scores.weights, "base": scores.base, "current": scores.current}
    report = {
        "measure": "artifact",
        "level": artifact.quantization,
        "reason": loss or praise,
        "difference": asdict(difference_interval(counts_of(changes))),
        "margin": margin,
        "models": {name: figures(pair_scores) for name, pair_scores in models.items()},
    }
    with transaction.atomic():
        evaluation = Evaluation.objects.create(
            version=of_weights.version,
            training_set=of_weights.training_set,
            against=of_weights.against,
            artifact=artifact,
            pairs=len(scores.rows),
            prompts=len({row["prompt_key"] for row in scores.rows}),
            accuracy=accuracy_of(scores.file).value,
            base_accuracy=accuracy_of(scores.base).value,
            against_accuracy=accuracy_of(scores.current).value,
            verdict=verdict,
            report=report,
        )
        version_judged(evaluation)
    return evaluation


def _describe_loss(level: str, scores: _Scores, margin: float) -> tuple[str, str]:
    """Why the file is held back, or nothing; and a summary of the figures. A loss of points is enough: holding back promotes
    nothing."""
    changes = counts_of(prompt_changes(scores.file, scores.weights))
    allowed = margin + TOLERANCE
    points = f"{100 * changes.difference:+.1f} points"
    summary = f"{points} against the weights that it was made from, on {changes.prompts} prompts"
    broken = sum(not math.isfinite(score.margin) for score in scores.file)
    if broken:
        return f"The file at {level} gives no finite score to {broken} of {len(scores.file)} pairs.", summary
    if -changes.difference > allowed and changes.lost - changes.gained >= FEWEST_LOST:
        most = f"at most {100 * allowed:g} are allowed; {_way_out(level)}"
        return f"The file at {level} loses too much: {summary}, {most}.", summary
    return "", summary


def _way_out(level: str) -> str:
    larger = LEVELS[: LEVELS.index(level)][-1:] if level in LEVELS else ()
    return f"export a larger level, {larger[0]} for one" if larger else "there is no larger level: train again"
