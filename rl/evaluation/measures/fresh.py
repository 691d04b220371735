"""Answers of two versions to prompts that neither has learned from, compared by a judge that has learned from people.

For each prompt the judge says how likely people prefer the new version's answer, p. Where the judge is p sure, it is right
a little less or more often than that: the difference is measured on people's own labels and added to every p on the side
that the judge takes, and its error enters the interval (prediction-powered inference: Angelopoulos et al., 2023, Science
382:669).

    share = mean(p + delta * side),     side = 1 where p > 1/2, -1 where p < 1/2
    error^2 = variance(p + delta * side) / n + variance of mean(p) over the resampled heads
            + mean(side)^2 * variance(delta)
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from rl.base.measurements import Interval, wilson
from rl.base.records import GeneratedAnswer
from rl.evaluation.held_out import contrasts
from rl.evaluation.judges import Duel, Judge, Judged, Preferences
from rl.evaluation.stats.intervals import student_t
from rl.judge.labels import FOLDS, fold_of, text_of

FEWEST_CHECKS = 8
"""Prompts whose labels tell how good the judge is."""
Row = Mapping[str, Any]
_FORMATTED = re.compile(r"^[ \t]*(?:[-*•#]|\d+\.)\s|\*\*|```", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How good a judge is, on labels of prompts that it has not seen."""

    name: str
    agreement: Interval
    """With people, over prompts."""
    prompts: int
    opinions: int
    delta: float
    """How much more often it agrees with people than it is sure to."""
    delta_error: float
    longer: float
    """Share of the prompts at which people prefer the answer with more words: what a judge must know more than."""

    @property
    def beats_chance(self) -> bool:
        return self.prompts >= FEWEST_CHECKS and self.agreement.low > 0.5


@dataclass(frozen=True, slots=True)
class Fresh:
    """The share of prompts at which people would prefer the new version's answer, by a judge; a draw is half."""

    judge: Calibration
    shares: tuple[float, ...]
    """How likely people prefer the new version's answer to each prompt, by the judge, its error taken off; half where both
    are the same."""
    share: float
    """Their mean."""
    error: float
    different: int
    """Prompts at which the two answers are not the same."""
    lengths: dict[str, Any]
    """What can be gamed: words and formatting of both, and the share at equal length."""

    def interval(self, confidence: float = 0.95) -> Interval:
        degrees = max(1, min(len(self.shares), self.judge.prompts) - 1)
        half = student_t(degrees, confidence) * self.error
        return Interval(self.share, max(0.0, self.share - half), min(1.0, self.share + half))

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": "fresh",
            "share": asdict(self.interval()),
            "prompts": len(self.shares),
            "different": self.different,
            "judge": {**asdict(self.judge), "beats_chance": self.judge.beats_chance},
            **self.lengths,
        }


@dataclass(frozen=True, slots=True)
class Unheard:
    """A judge that could not be asked."""

    problem: str

    def as_dict(self) -> dict[str, Any]:
        return {"kind": "fresh", "problem": self.problem, "prompts": 0}


def measure(
    judge: Judge,
    method: str,
    labelled: Sequence[Row],
    asked: Sequence[Row],
    answers: Mapping[str, Sequence[GeneratedAnswer | None]],
) -> Fresh | None:
    """``labelled``: rows of a training set of this method, those held out too. ``asked``: rows with ``prompt`` and
    ``prompt_key``; ``answers``: of "new" and of "current", or where no version is in use of "base". None where there are too
    few labels or answers. Raises JudgeFailed."""
    other = answers.get("current", answers.get("base", ()))
    both = [
        (row, new.text, old.text) for row, new, old in zip(asked, answers["new"], other, strict=True) if new and old
    ]
    if len(both) < 2:
        return None
    # matched within a fold, so that no head has learned from either side
    known = [
        contrast
        for fold in range(FOLDS)
        for contrast in contrasts(method, [row for row in labelled if fold_of(row["prompt_key"]) == fold])
    ]
    duels = [Duel(row["prompt"], row["prompt_key"], new, old) for row, new, old in both]
    judged = judge.compare(labelled, known, duels)
    calibration = check(judge.name, judged, known) if judged else None
    if judged is None or calibration is None:
        return None
    return estimate(calibration, judged.duels, [(new, old) for _, new, old in both])


def check(name: str, judged: Judged, contrasts: Sequence[Row]) -> Calibration | None:
    """``contrasts``: those that the judge was checked on, and others. None with fewer than two prompts at which it takes a
    side."""
    hits: defaultdict[str, list[float]] = defaultdict(list)
    excess: defaultdict[str, list[float]] = defaultdict(list)
    for prompt, of_heads in judged.checks:
        p = fmean(of_heads)
        hit = 0.5 if p == 0.5 else float(p > 0.5)
        hits[prompt].append(hit)
        if p != 0.5:  # delta is added where the judge takes a side
            excess[prompt].append(hit - max(p, 1 - p))
    means = [fmean(values) for values in excess.values()]
    if len(means) < 2:
        return None
    right = math.fsum(fmean(values) for values in hits.values())
    agreement = wilson(min(right, len(hits)), len(hits))
    error = stdev(means) / math.sqrt(len(means))
    longer = _longer_wins(row for row in contrasts if row["prompt_key"] in hits)
    return Calibration(name, agreement, len(hits), judged.opinions, fmean(means), error, longer)


def _longer_wins(contrasts: Iterable[Row]) -> float:
    """The mean over prompts; of the same length is half."""
    hits: defaultdict[str, list[float]] = defaultdict(list)
    for row in contrasts:
        better, worse = (len(text_of(row[side]).split()) for side in ("chosen", "rejected"))
        hits[row["prompt_key"]].append((better > worse) + (better == worse) / 2)
    return fmean(map(fmean, hits.values()))


def estimate(judge: Calibration, preferences: Sequence[Preferences], texts: Sequence[tuple[str, str]]) -> Fresh:
    """``texts``: the answers of both at each prompt, of two prompts or more."""
    same = [new == old for new, old in texts]
    of_heads = [[0.5] * len(values) if equal else list(values) for values, equal in zip(preferences, same, strict=True)]
    judged = [fmean(values) for values in of_heads]
    sides = [(value > 0.5) - (value < 0.5) for value in judged]
    p = [min(max(value + judge.delta * side, 0.0), 1.0) for value, side in zip(judged, sides, strict=True)]
    of_each_head = [fmean(column) for column in zip(*of_heads, strict=True)]
    spread = stdev(of_each_head) if len(of_each_head) > 1 else 0.0
    error = math.sqrt(stdev(p) ** 2 / len(p) + spread**2 + (fmean(sides) * judge.delta_error) ** 2)
    return Fresh(judge, tuple(p), fmean(p), error, len(p) - sum(same), gameable(p, texts))


def gameable(p: Sequence[float], texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Words and formatting, and what the share would be were both answers of the same length: the intercept of a line
    through p - 1/2 over tanh(log(words of the new answer / words of the other)), with its 95 % interval."""
    words = [(len(new.split()), len(old.split())) for new, old in texts]
    x = [math.tanh(math.log((new + 1) / (old + 1))) for new, old in words]
    formatted = [(bool(_FORMATTED.search(new)), bool(_FORMATTED.search(old))) for new, old in texts]
    return {
        "words": {"new": fmean(new for new, _ in words), "current": fmean(old for _, old in words)},
        "formatted": {"new": fmean(new for new, _ in formatted), "current": fmean(old for _, old in formatted)},
        "at_equal_length": _intercept(x, [value - 0.5 for value in p]),
    }


def _intercept(x: Sequence[float], y: Sequence[float]) -> dict[str, float] | None:
    """Least squares; None where the lengths do not vary, or with fewer than 8 points."""
    n, mean_x, mean_y = len(x), fmean(x), fmean(y)
    spread = math.fsum((value - mean_x) ** 2 for value in x)
    if n < FEWEST_CHECKS or spread < 1e-9:
        return None
    slope = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    value = mean_y - slope * mean_x
    residual = math.fsum((b - value - slope * a) ** 2 for a, b in zip(x, y, strict=True)) / (n - 2)
    half = student_t(n - 2) * math.sqrt(residual * (1 / n + mean_x**2 / spread))
    low, high = (min(max(0.5 + value + sign * half, 0.0), 1.0) for sign in (-1, 1))
    return asdict(Interval(min(max(0.5 + value, 0.0), 1.0), low, high))
