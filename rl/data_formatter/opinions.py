"""What all pair builders share: raters' votes merged into opinions, the choice of pairs, and what is left out and why.

``skipped`` counts under the names below. A whole prompt counts once under ONLY_LIKED or ONLY_DISLIKED, an answer (or a
scenario) once under the reasons that concern it alone, and a pair once under the reasons that concern two answers."""

import hashlib
import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from rl.base.errors import UsageError
from rl.base.records import RatedAnswer

ONLY_LIKED = "only liked answers"
ONLY_DISLIKED = "only disliked answers"

NOT_RATED = "not rated"
TIE = "tie between raters"
LOW_CONFIDENCE = "low confidence"
EMPTY_ANSWER = "empty answer"
BROKEN_OFF = "good, and broken off before its end"
NO_WIDGET = "no widget choice"
UNKNOWN_SCENARIO = "scenario not on the list"
MIXED_SCENARIO = "scenario liked and disliked"
BY_MAJORITY = "scenario by a clear majority"
"""Counts what is taken, not what is left out."""

SAME_TEXT = "same text"
DUPLICATE = "duplicate"
CONTRADICTION = "contradiction"
OUTVOTED = "outvoted"
OVER_LIMIT = "over the limit per question"
OVER_CAP = "over the cap of one rater"
WEIGHED_DOWN = "weighed down, over the cap of one rater"
"""Counts what is taken, with less weight."""


@dataclass(frozen=True, slots=True)
class PairLimits:
    """Raises UsageError for a value out of range."""

    max_pairs_per_question: int
    min_confidence: float
    """Least share of the raters that must agree, 0 to 1."""

    def __post_init__(self) -> None:
        if self.max_pairs_per_question < 1:
            raise UsageError(f"max_pairs_per_question must be 1 or more, not {self.max_pairs_per_question}")
        if not 0 <= self.min_confidence <= 1:
            raise UsageError(f"min_confidence must be from 0 to 1, not {self.min_confidence}")


@dataclass(frozen=True)
class MergedOpinion:
    """What raters think of one thing that can be answered: a text, a fixture, a scenario."""

    key: str
    answers: tuple[RatedAnswer, ...]
    """In the order of their ids; at least one."""

    up: float = field(init=False)
    down: float = field(init=False)
    confidence: float = field(init=False)
    """Share of the raters that agree with the verdict, 0.5 to 1; 0.5 where nobody rated."""

    def __post_init__(self) -> None:
        up, down = sum([answer.up for answer in self.answers]), sum([answer.down for answer in self.answers])
        sums = {"up": up, "down": down, "confidence": max(up, down) / (up + down) if up + down else 0.5}
        self.__dict__.update(sums)  # frozen, and this is once

    @property
    def verdict(self) -> Literal["up", "down", "tie"]:
        return "up" if self.up > self.down else "down" if self.down > self.up else "tie"

    @property
    def rank(self) -> tuple[float, int]:
        """The surest first; among equals an order that has nothing to do with the order of arrival."""
        return (-self.confidence, stable_hash(self.key))

    @property
    def feedback_ids(self) -> set[int]:
        return {number for answer in self.answers for number in answer.feedback_ids}


AnOpinion = TypeVar("AnOpinion", bound=MergedOpinion)


def group_answers(
    answers: Iterable[RatedAnswer], key: Callable[[RatedAnswer], Any]
) -> list[tuple[Any, list[RatedAnswer]]]:
    """Groups in the order of their keys, answers in the order of their ids."""
    groups: defaultdict[Any, list[RatedAnswer]] = defaultdict(list)
    for answer in answers:
        groups[key(answer)].append(answer)
    for group in groups.values():
        group.sort(key=lambda answer: answer.answer_id)
    return sorted(groups.items())


def opinions(
    answers: Iterable[RatedAnswer], key: Callable[[RatedAnswer], str], options: PairLimits, skipped: Counter[str]
) -> list[MergedOpinion]:
    """One for each key, all its raters' votes added up; what is not evidence either way is counted and left out."""
    merged = (MergedOpinion(name, tuple(group)) for name, group in group_answers(answers, key))
    return [opinion for opinion in merged if _is_evidence(opinion, options, skipped)]


def _is_evidence(opinion: MergedOpinion, options: PairLimits, skipped: Counter[str]) -> bool:
    if opinion.up + opinion.down == 0:
        skipped[NOT_RATED] += 1
    elif opinion.verdict == "tie":
        skipped[TIE] += 1
    elif opinion.confidence < options.min_confidence:
        skipped[LOW_CONFIDENCE] += 1
    elif opinion.verdict == "up" and all(answer.is_broken_off for answer in opinion.answers):
        skipped[BROKEN_OFF] += 1
    else:
        return True
    return False


def split(opinions: Iterable[AnOpinion]) -> tuple[list[AnOpinion], list[AnOpinion]]:
    """Liked and disliked, the surest first."""
    of_verdict: dict[str, list[AnOpinion]] = {"up": [], "down": [], "tie": []}
    for opinion in opinions:
        of_verdict[opinion.verdict].append(opinion)
    for listed in of_verdict.values():
        if len(listed) > 1:
            listed.sort(key=lambda opinion: opinion.rank)
    return of_verdict["up"], of_verdict["down"]


def count_one_sided(liked: Sequence[MergedOpinion], disliked: Sequence[MergedOpinion], skipped: Counter[str]) -> None:
    if liked and not disliked:
        skipped[ONLY_LIKED] += 1
    elif disliked and not liked:
        skipped[ONLY_DISLIKED] += 1


def best_pairs(liked: list[AnOpinion], disliked: list[AnOpinion], limit: int) -> list[tuple[AnOpinion, AnOpinion]]:
    """The ``limit`` surest pairs, out of lists with the surest first.

    Never looks at more than limit x limit of them: a pair with an answer beyond its side's first ``limit`` has at least
    that many pairs at least as sure before it. Among equally sure pairs those come first that use answers not used yet."""
    ranked = [
        (-min(up.confidence, down.confidence), abs(i - j), i + j, i)
        for i, up in enumerate(liked[:limit])
        for j, down in enumerate(disliked[:limit])
    ]
    return [(liked[i], disliked[total - i]) for _, _, total, i in heapq.nsmallest(limit, ranked)]


def chosen_pairs(
    opinions: Iterable[AnOpinion], options: PairLimits, skipped: Counter[str]
) -> list[tuple[AnOpinion, AnOpinion]]:
    """Liked against disliked under the limit; counts the rest."""
    liked, disliked = split(opinions)
    count_one_sided(liked, disliked, skipped)
    pairs = best_pairs(liked, disliked, options.max_pairs_per_question)
    if over := len(liked) * len(disliked) - len(pairs):
        skipped[OVER_LIMIT] += over
    return pairs


def metadata(pair_type: str, confidence: float, feedback_ids: Iterable[int], **more: Any) -> dict[str, Any]:
    """``feedback_ids``: of every rating that the pair's texts or their order rest on."""
    return {"pair_type": pair_type, "confidence": round(confidence, 4), "feedback": sorted(feedback_ids), **more}


def stable_hash(text: str) -> int:
    """64 bits, the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
