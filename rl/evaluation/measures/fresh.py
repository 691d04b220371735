"""Answers of two versions to prompts that neither has learned from, compared by a judge that has learned from people.

For each prompt the judge takes a side: 1 the new version's, 0 the other's, one half where both answers are the same. Their
mean is a forecast of what people would prefer, and no more: how often a judge agrees with people says little about a version
whose answers it has never seen.

    error^2 = share (1 - share) / n + MISSED^2

In the worst case all its errors were made in favour of one version. Then people prefer the new one in no less than

    lower end of the share - (1 - lower end of its agreement)"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from rl.base.measurements import Interval, wilson, z_of
from rl.base.records import GeneratedAnswer
from rl.data_formatter.degeneration import is_broken
from rl.evaluation.held_out import contrasts
from rl.evaluation.judges import Duel, Judge, Judged
from rl.judge.labels import FOLDS, fold_of, text_of

FEWEST_CHECKS = 8
"""Prompts whose labels tell how good the judge is."""
MISSED = 0.09
"""How far a judge's share is from people's, beside what comes of few prompts, for a version that it never saw: measured on
people's own picks between five models (docs/evaluation.md)."""
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
    longer: float
    """Share of the prompts at which people prefer the answer with more words: what a judge must know more than."""

    @property
    def beats_chance(self) -> bool:
        return self.prompts >= FEWEST_CHECKS and self.agreement.low > 0.5


@dataclass(frozen=True, slots=True)
class Fresh:
    """The share of prompts at which people would prefer the new version's answer, by a judge."""

    judge: Calibration
    sides: tuple[float, ...]
    """1 where the judge prefers the new version's answer, 0 where the other, half where both are the same."""
    different: int
    """Prompts at which the two answers are not the same."""
    lengths: dict[str, Any]
    """What can be gamed: words and formatting of both."""
    keys: tuple[str, ...] = ()
    """The prompts' keys."""

    @property
    def forecast(self) -> Interval:
        """At 95 %."""
        return forecast(self.sides, 0.05)

    def worst_case(self, confidence: float) -> float:
        """The least share that people would prefer."""
        low = wilson(sum(self.sides), len(self.sides), confidence).low
        return max(0.0, low - (1 - self.judge.agreement.low))

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": "fresh",
            "share": asdict(self.forecast),
            "prompts": len(self.sides),
            "different": self.different,
            "judge": {**asdict(self.judge), "beats_chance": self.judge.beats_chance},
            **self.lengths,
        }


def forecast(sides: Sequence[float], error: float) -> Interval:
    share = fmean(sides)
    half = z_of(1 - error) * math.sqrt(share * (1 - share) / len(sides) + MISSED**2)
    return Interval(share, max(0.0, share - half), min(1.0, share + half))


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
    *,
    breakage_loses: bool = True,
) -> Fresh | None:
    """``labelled``: rows of a training set of this method, those held out too. ``asked``: rows with ``prompt`` and
    ``prompt_key``; ``answers``: of "new" and of "current", or where no version is in use of "base"; ``breakage_loses``: as
    ``estimate`` has it. None where there are too few labels or answers. Raises JudgeFailed."""
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
    texts = [(new, old) for _, new, old in both]
    compared = estimate(calibration, judged.duels, texts, breakage_loses=breakage_loses)
    return replace(compared, keys=tuple(row["prompt_key"] for row, _, _ in both))


def check(name: str, judged: Judged, contrasts: Sequence[Row]) -> Calibration | None:
    """``contrasts``: those that the judge was checked on, and others. None with fewer than two prompts at which it takes a
    side."""
    hits: defaultdict[str, list[float]] = defaultdict(list)
    sided: set[str] = set()
    for prompt, p in judged.checks:
        side = side_of(p)
        hits[prompt].append(side)
        sided |= {prompt} if side != 0.5 else set()
    if len(sided) < 2:
        return None
    right = math.fsum(fmean(values) for values in hits.values())
    agreement = wilson(min(right, len(hits)), len(hits))
    longer = _longer_wins(row for row in contrasts if row["prompt_key"] in hits)
    return Calibration(name, agreement, len(hits), judged.opinions, longer)


def side_of(p: float) -> float:
    """1 where people probably prefer the first answer."""
    return 0.5 if p == 0.5 else float(p > 0.5)


def _longer_wins(contrasts: Iterable[Row]) -> float:
    """The mean over prompts; of the same length is half."""
    hits: defaultdict[str, list[float]] = defaultdict(list)
    for row in contrasts:
        better, worse = (len(text_of(row[side]).split()) for side in ("chosen", "rejected"))
        hits[row["prompt_key"]].append((better > worse) + (better == worse) / 2)
    return fmean(map(fmean, hits.values()))


def estimate(
    judge: Calibration, preferences: Sequence[float], texts: Sequence[tuple[str, str]], *, breakage_loses: bool = True
) -> Fresh:
    """``texts``: the answers of both at each prompt, of two prompts or more. ``breakage_loses``: a broken answer loses to
    one that is not, whatever the judge says, and of two broken ones neither wins."""
    sides = tuple(_take_side(p, new, old, breakage_loses) for p, (new, old) in zip(preferences, texts, strict=True))
    return Fresh(judge, sides, sum(new != old for new, old in texts), gameable(texts))


def _take_side(p: float, new: str, old: str, breakage_loses: bool) -> float:
    """1 for the new answer."""
    if new == old:
        return 0.5
    if breakage_loses and ((new_is_broken := is_broken(new)) | (old_is_broken := is_broken(old))):
        return (1 + old_is_broken - new_is_broken) / 2
    return side_of(p)


def gameable(texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Words and formatting of both, on average."""
    sides = {"new": [new for new, _ in texts], "current": [old for _, old in texts]}
    return {
        "words": {name: fmean(len(text.split()) for text in of_side) for name, of_side in sides.items()},
        "formatted": {
            name: fmean(bool(_FORMATTED.search(text)) for text in of_side) for name, of_side in sides.items()
        },
    }
