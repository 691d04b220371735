"""From people's opinions to a measured model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from rl.auto_labels.opinions import read_opinions
from rl.auto_labels.predicting import HEAD, RATERS, load_reader, newest
from rl.base.errors import BadFile, NotEnoughData
from rl.base.leaves import leaf
from rl.base.records import Report, silent
from rl.dataset_builder import Split
from rl.judge.labels import Answers, Opinion
from rl.models import Agent, LabelModel

FEWEST_OF_A_KIND = 10
"""Good labels, and bad ones, to learn from."""
FEWEST_HELD_OUT = 10
HELD_OUT = 0.2
"""Share of the prompts; the same ones that every training set holds out at this share."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """Side-by-side picks and edited answers."""

    learned: int
    held_out: int
    right: int
    """So many of those held out the judge ranks as people do."""

    def as_dict(self) -> dict[str, Any]:
        accuracy = self.right / self.held_out if self.held_out else None
        return {"learned": self.learned, "held_out": self.held_out, "accuracy": accuracy}


@dataclass(frozen=True, slots=True)
class Learned:
    model: LabelModel
    """Not saved after a dry run."""
    preferences: Preferences | None
    """None of a model that was learned before."""
    head: Any
    """``rl.judge.head.Head``."""
    reader: Any
    """The base model in memory."""


def go_on(agent: Agent, report: Report = silent) -> Learned | None:
    """The newest model, where nobody said anything since and the base model is the same: it can judge what is left. Raises
    UsageError as ``learn``."""
    model = newest(agent)
    if model is None or agent.feedback.filter(created_at__gte=model.created_at).exists():
        return None
    try:
        head = leaf(HEAD).load(model.path)
    except BadFile:
        return None
    if head.base_model != agent.base_model:
        return None
    reader = load_reader(agent, report)
    return Learned(model, None, head, reader) if reader.width == len(head.mean) else None


def learn(agent: Agent, *, dry_run: bool = False, report: Report = silent) -> Learned:
    """Raises NotEnoughData, and UsageError where torch is not installed or the base model cannot be loaded."""
    heads, raters, began = leaf(HEAD), leaf(RATERS), timezone.now()
    answers = Answers()
    opinions = read_opinions(agent, answers)
    _split(agent, opinions)  # before the base model is loaded
    reader = load_reader(agent, report)
    features = reader.features(answers.conversations, report)
    learned, held_out = _split(agent, opinions)
    report("stage", {"name": f"learning from {len(learned):,} labels and preferences"})
    weighed = raters.weigh_opinions(learned, raters.trust_raters(features, learned))
    head = replace(heads.fit(features, weighed), base_model=agent.base_model)
    measured = _measure(head, features, _labels(held_out))
    model = LabelModel(agent=agent, labels=len(_labels(learned)), **_figures(measured))
    if not dry_run:
        with transaction.atomic():
            model.save()
            # what was said since is for the next one
            LabelModel.objects.filter(pk=model.pk).update(created_at=began)
            heads.save(head, model.path)
    return Learned(model, _preferences(head, features, learned, held_out), head, reader)


def _split(agent: Agent, opinions: Sequence[Opinion]) -> tuple[list[Opinion], list[Opinion]]:
    """To learn from, and held out. Raises NotEnoughData."""
    prompts = {opinion.prompt for opinion in opinions}
    split = Split(agent, HELD_OUT)
    aside = {prompt for prompt in prompts if split.is_held_out(prompt)}
    held_out = [opinion for opinion in opinions if opinion.prompt in aside]
    _check_variety(agent, _labels(opinions), _labels(held_out))
    return [opinion for opinion in opinions if opinion.prompt not in aside], held_out


def _labels(opinions: Sequence[Opinion]) -> list[Opinion]:
    return [opinion for opinion in opinions if opinion.other is None]


def _check_variety(agent: Agent, labels: Sequence[Opinion], held_out: Sequence[Opinion]) -> None:
    counts = Counter(label.value > 0.5 for label in labels)
    if missing := [name for good, name in ((True, "good"), (False, "bad")) if counts[good] < FEWEST_OF_A_KIND]:
        raise NotEnoughData(
            f"{counts[True]} answers are labelled good and {counts[False]} bad; a model needs {FEWEST_OF_A_KIND} of each: "
            f"label more {' and '.join(missing)} ones"
        )
    if len(held_out) < FEWEST_HELD_OUT:
        raise NotEnoughData(
            f"only {len(held_out)} labelled answers of {agent} belong to held-out prompts, and {FEWEST_HELD_OUT} are "
            "needed to know how good the model is: label answers to more questions"
        )


def _measure(head: Any, features: Any, labels: Sequence[Opinion]) -> list[tuple[float, bool]]:
    """For each label the probability of good, and whether it is."""
    goodness = head.goodness(features[[label.answer for label in labels]]).tolist()
    return [(p, label.value > 0.5) for p, label in zip(goodness, labels, strict=True)]


def _preferences(head: Any, features: Any, learned: Sequence[Opinion], held_out: Sequence[Opinion]) -> Preferences:
    numbers = head.ratings(features)[0]
    pairs = [(opinion.answer, opinion.other) for opinion in held_out if opinion.other is not None]
    right = sum(bool(numbers[better] > numbers[worse]) for better, worse in pairs)
    return Preferences(len(learned) - len(_labels(learned)), len(pairs), right)


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
