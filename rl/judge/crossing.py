"""A judge that has never seen a label of the prompt whose answers it compares.

The prompts are cut into FOLDS by a hash, and the answers to those of a fold are judged by a head that has learned from the
other folds. So every label tells how good the judge is, and none of them has taught what it checks (cross-prediction: Zrnic
and Candès, 2024, PNAS 121:e2322083121).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rl.judge.head import RESAMPLES, Head, fit, sigmoid
from rl.judge.labels import FOLDS, Opinion, fold_of

Weigh = Callable[[list[Opinion]], list[Opinion]]


@dataclass(frozen=True, slots=True)
class Judge:
    heads: tuple[Head, ...]
    """One for each fold, from the labels of the others."""

    def preference(self, features: np.ndarray, better: int, worse: int, prompt: str) -> np.ndarray:
        """How likely people prefer the one answer to the other, as the resampled heads of the prompt's fold see it: (R,)."""
        ratings = self.heads[fold_of(prompt)].ratings(features[[better, worse]])[1:]
        return sigmoid(ratings[:, 0] - ratings[:, 1])

    def agreement(self, features: np.ndarray, opinion: Opinion) -> float:
        """How likely the opinion is right, as the mean of the resampled heads of its prompt's fold sees it, 0 to 1."""
        if opinion.other is not None:
            return float(self.preference(features, opinion.answer, opinion.other, opinion.prompt).mean())
        head = self.heads[fold_of(opinion.prompt)]
        good = sigmoid(head.ratings(features[[opinion.answer]])[1:, 0] + head.constants[1:])
        return float((good if opinion.value > 0.5 else 1 - good).mean())


def cross_fit(
    features: np.ndarray, opinions: Sequence[Opinion], *, resamples: int = RESAMPLES, weigh: Weigh = list
) -> Judge | None:
    """``weigh``: what becomes of the opinions that a head learns from. None where a fold's complement holds no opinion, or
    labels of one kind alone."""
    heads = []
    for fold in range(FOLDS):
        others = weigh([opinion for opinion in opinions if fold_of(opinion.prompt) != fold])
        if not _tell_apart(others):
            return None
        heads.append(fit(features, others, resamples))
    return Judge(tuple(heads))


def _tell_apart(opinions: Sequence[Opinion]) -> bool:
    values = {opinion.value > 0.5 for opinion in opinions if opinion.other is None}
    return len(values) == 2 or any(opinion.other is not None for opinion in opinions)
