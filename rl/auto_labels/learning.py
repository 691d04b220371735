"""From people's labels to a measured model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Avg

from rl.base.errors import NotEnoughData
from rl.base.leaves import leaf
from rl.base.records import Report, TraceRecord, silent
from rl.collect.traces.records import trace_record, with_feedback
from rl.dataset_builder import is_held_out
from rl.models import Agent, Feedback, LabelModel, Trace, prompt_key

LEAF = "rl.auto_labels.classifier"
FEWEST_OF_A_KIND = 10
"""Good labels, and bad ones, to learn from."""
FEWEST_HELD_OUT = 10
HELD_OUT = 0.2
"""Share of the prompts; the same ones that every training set holds out at this share."""
CHUNK = 500

Labelled = tuple[TraceRecord, bool]


@dataclass(frozen=True, slots=True)
class Learned:
    model: LabelModel
    """Not saved after a dry run."""
    weights: Any


def learn(agent: Agent, *, dry_run: bool = False, report: Report = silent) -> Learned:
    """Raises NotEnoughData, and UsageError where scikit-learn is not installed."""
    classifier = leaf(LEAF)
    labels = _labels(agent)
    _check_variety(labels)
    report("stage", {"name": f"learning from {len(labels):,} labels"})
    weights = classifier.fit(example for example in _examples(agent, labels) if not _held_out(agent, example[0]))
    report("stage", {"name": "measuring on held-out prompts"})
    held_out = (example for example in _examples(agent, labels) if _held_out(agent, example[0]))
    measured = list(classifier.measure(weights, held_out))
    if len(measured) < FEWEST_HELD_OUT:
        raise NotEnoughData(
            f"only {len(measured)} labelled answers of {agent} belong to held-out prompts, and {FEWEST_HELD_OUT} are "
            "needed to know how good the model is: label answers to more questions"
        )
    model = LabelModel(agent=agent, labels=len(labels) - len(measured), **_figures(measured))
    if not dry_run:
        with transaction.atomic():
            model.save()
            classifier.save(weights, model.path)
    return Learned(model, weights)


def newest(agent: Agent) -> LabelModel | None:
    return next((model for model in agent.label_models.all()[:10] if model.path.exists()), None)


def predictor(agent: Agent) -> Callable[[TraceRecord], float] | None:
    """A function that gives the newest model's probability of a good label. None without a model that is better than
    always saying the commoner label. Raises UsageError where scikit-learn is not installed, BadFile for damaged
    weights."""
    model = newest(agent)
    if model is None or not model.is_informative:
        return None
    classifier = leaf(LEAF)
    weights = classifier.load(model.path)
    return lambda trace: float(classifier.probabilities(weights, [trace])[0])


def _labels(agent: Agent) -> dict[UUID, bool]:
    """The traces on whose label the mean of people's ratings decides."""
    ratings = Feedback.objects.filter(agent=agent, kind=Feedback.Kind.RATING, is_current=True).order_by()
    means = ratings.values("trace").annotate(mean=Avg("value")).exclude(mean=0.5)
    return {trace: mean > 0.5 for trace, mean in means.values_list("trace", "mean")}


def _check_variety(labels: dict[UUID, bool]) -> None:
    counts = Counter(labels.values())
    if missing := [name for good, name in ((True, "good"), (False, "bad")) if counts[good] < FEWEST_OF_A_KIND]:
        raise NotEnoughData(
            f"{counts[True]} answers are labelled good and {counts[False]} bad; a model needs {FEWEST_OF_A_KIND} of each: "
            f"label more {' and '.join(missing)} ones"
        )


def _examples(agent: Agent, labels: dict[UUID, bool]) -> Iterator[Labelled]:
    """In memory is one chunk of them."""
    keys = sorted(labels)
    for start in range(0, len(keys), CHUNK):
        for trace in with_feedback(Trace.objects.filter(pk__in=keys[start : start + CHUNK]).order_by("pk")):
            yield trace_record(trace), labels[trace.pk]


def _held_out(agent: Agent, trace: TraceRecord) -> bool:
    return is_held_out(agent.name, prompt_key(trace.prompt), HELD_OUT)


def _figures(measured: list[tuple[float, bool]]) -> dict[str, Any]:
    """``measured``: for each held-out label the probability of good, and whether it is."""
    right = [(max(p, 1 - p), (p > 0.5) == good) for p, good in measured]
    goods = sum(good for _, good in measured)
    return {
        "heldout_labels": len(measured),
        "heldout_accuracy": sum(correct for _, correct in right) / len(right),
        "majority_share": max(goods, len(measured) - goods) / len(measured),
        "calibration": _calibration(right),
    }


def _calibration(right: list[tuple[float, bool]]) -> list[dict[str, float]]:
    bins = []
    for low in (0.5, 0.6, 0.7, 0.8, 0.9):
        high = round(low + 0.1, 1)
        inside = [(sure, correct) for sure, correct in right if low <= sure < high or sure == high == 1.0]
        if inside:
            confidence = sum(sure for sure, _ in inside) / len(inside)
            accuracy = sum(correct for _, correct in inside) / len(inside)
            bins.append({"from": low, "to": high, "count": len(inside), "confidence": confidence, "accuracy": accuracy})
    return bins
