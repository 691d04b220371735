"""What the database knows about a version, for its model card."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from math import comb
from typing import Any

from rl.base.export_records import DataFacts, EvaluationFacts, Provenance
from rl.base.measurements import Interval
from rl.dataset_builder.frozen.files import FEEDBACK, read_feedback_ids
from rl.models import Evaluation, Feedback, ModelVersion, TrainingSet

_MOST_EVALUATIONS = 5
_MEASURES = {"accuracy": "accuracy on held-out pairs", "reward": "mean reward of held-out prompts"}
_SUCCESS = "share of held-out tasks solved"


def of_version(version: ModelVersion) -> Provenance:
    run = getattr(version, "run", None)
    return Provenance(
        base_model=version.base_model,
        agent=version.agent.name,
        version=version.name,
        parent=version.parent.name if version.parent else "",
        method=run.method if run else "",
        hyperparameters=run.config if run else {},
        data=_data(run.training_set) if run and run.training_set else None,
        evaluations=tuple(map(_evaluation, version.evaluations.select_related("against")[:_MOST_EVALUATIONS])),
    )


def _data(training_set: TrainingSet) -> DataFacts:
    votes, raters = _votes(training_set)
    shared = agreeing = 0
    for counts in votes.values():
        shared += comb(sum(counts.values()), 2)
        agreeing += sum(comb(count, 2) for count in counts.values())
    return DataFacts(
        fingerprint=training_set.content_hash,
        source=training_set.source,
        train_rows=training_set.train_rows,
        heldout_rows=training_set.heldout_rows,
        feedback=training_set.feedback_count,
        ratings=sum(sum(counts.values()) for counts in votes.values()),
        raters=len(raters),
        shared_judgements=shared,
        agreeing=agreeing,
    )


def _votes(training_set: TrainingSet) -> tuple[Mapping[Any, Counter[str]], set[str]]:
    """How often each rated answer was liked, disliked and neither; and who rated. Rows from files have no ratings here."""
    votes: dict[Any, Counter[str]] = defaultdict(Counter)
    raters: set[str] = set()
    for trace, rater, value in _ratings(training_set):
        assert value is not None  # noqa: S101  a constraint of the database
        votes[trace]["up" if value > 0.5 else "down" if value < 0.5 else "neutral"] += 1
        raters.add(rater)
    return votes, raters


def _ratings(training_set: TrainingSet) -> Iterator[tuple[Any, str, float | None]]:
    if not (training_set.directory / FEEDBACK).exists():
        return
    for part in Feedback.by_ids(read_feedback_ids(training_set.directory)):
        yield from part.filter(kind=Feedback.Kind.RATING).values_list("trace", "rater", "value")


def _evaluation(evaluation: Evaluation) -> EvaluationFacts:
    """The version in use is told of where there was one; without it, it was the base model."""
    names = {"new": "this version", "base": "base model"}
    if evaluation.against:
        names["current"] = f"{evaluation.against.name}, in use then"
    models = evaluation.report.get("models", {})
    measure = "accuracy" if "accuracy" in models.get("new", {}) else "reward"
    figures = {name: _interval(models[key][measure]) for key, name in names.items() if measure in models.get(key, {})}
    return EvaluationFacts(
        date=evaluation.created_at.date().isoformat(),
        measure=_SUCCESS if evaluation.report.get("measure") == "success" else _MEASURES[measure],
        verdict=evaluation.verdict,
        reason=str(evaluation.report.get("reason", "")),
        figures=figures,
    )


def _interval(figures: Mapping[str, float]) -> Interval:
    return Interval(figures["value"], figures["low"], figures["high"])
