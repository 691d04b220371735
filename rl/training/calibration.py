"""Whether a reward model is as sure as it is right, and as high as people's scores."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rl.base.measurements import PairScore

BINS = 10


def calibration(contrasts: Sequence[Mapping[str, Any]], numbers: Sequence[PairScore]) -> dict[str, float]:
    """``contrasts``: as ``of_scores`` makes them, of pairs and of scored answers; ``numbers``: the model's, in their order.
    ``calibration_error`` where there are pairs. Where there are scores, ``scored_answers``, ``score_calibration_error``,
    ``brier_score``, and ``brier_score_of_mean``, that of a model that gives every answer their mean."""
    margins, values, scores = [], [], []
    for contrast, number in zip(contrasts, numbers, strict=True):
        if "scores" in contrast:
            scores += contrast["scores"]
            values += [sigmoid(number.chosen_logp), sigmoid(number.rejected_logp)]
        else:
            margins.append(number.margin)
    figures = {"calibration_error": expected_calibration_error(margins)} if margins else {}
    if not scores:
        return figures
    return figures | {
        "scored_answers": float(len(scores)),
        "score_calibration_error": score_calibration_error(values, scores),
        "brier_score": brier_score(values, scores),
        "brier_score_of_mean": brier_score([fmean(scores)] * len(scores), scores),
    }


def expected_calibration_error(margins: Sequence[float]) -> float:
    """0 to 1: by how much the confidence in the preferred answer and the share of right ones differ, on average over pairs.
    ``margins``: the number of the better answer less that of the worse one. A confidence is 0.5 to 1, cut into BINS equal
    bins. Pairs with equal numbers are half right."""
    confidences = [sigmoid(abs(margin)) for margin in margins]
    right = [0.5 if margin == 0 else float(margin > 0) for margin in margins]
    return _mean_gap([(confidence - 0.5) * 2 for confidence in confidences], confidences, right)


def score_calibration_error(values: Sequence[float], scores: Sequence[float]) -> float:
    """0 to 1: by how much the model's values and the scores differ, on average over answers; both 0 to 1. Within a bin of
    values, BINS equal ones, errors in both directions make up for each other."""
    return _mean_gap(values, values, scores)


def brier_score(values: Sequence[float], scores: Sequence[float]) -> float:
    """Mean squared difference, 0 to 1."""
    return fmean((value - score) ** 2 for value, score in zip(values, scores, strict=True))


def _mean_gap(places: Sequence[float], expected: Sequence[float], observed: Sequence[float]) -> float:
    """``places``: 0 to 1, by which they are cut into bins. 0 without any."""
    bins: list[list[float]] = [[] for _ in range(BINS)]
    for position, forecast, outcome in zip(places, expected, observed, strict=True):
        bins[min(int(position * BINS), BINS - 1)].append(forecast - outcome)
    return sum(abs(sum(gaps)) for gaps in bins) / len(places) if places else 0.0


def sigmoid(number: float) -> float:
    return 1 / (1 + math.exp(-max(-500.0, number)))
