"""Whether a new version may take the place of the one in use.

The answer comes from an interval, never from a point estimate: *promote* when all of it lies above zero, *reject* when all
of it lies below, and otherwise *undecided*, with about how many more ratings would settle it at the rates seen so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rl.evaluation.statistics import PairedCounts, difference_interval, mean_interval, needed_prompts, paired_counts
from rl.records import Interval, PairScore

FEWEST_PROMPTS = 8
"""With fewer held-out prompts nothing is decided, whatever they say."""

Decision = Literal["promote", "reject", "undecided"]


class Words(NamedTuple):
    """For a sentence about what was measured."""

    gain: str
    thing: str
    judged: str


REWARD, SUCCESS = Words("reward", "prompt", "rewarded"), Words("solved", "task", "played")


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Decision
    difference: Interval
    """Accuracy, or mean reward, of the new version minus that of the one in use, -1 to 1."""
    ratings_needed: int | None
    """About how many more ratings, of all prompts, would decide; None when decided, or when nobody can tell."""
    reason: str
    """One sentence for people."""


def decide(
    new: Sequence[PairScore],
    current: Sequence[PairScore],
    *,
    ratings_per_prompt: float,
    held_out_share: float,
    confidence: float = 0.95,
) -> Verdict:
    """Both must have scored the same pairs in the same order, else ValueError. No pairs at all is undecided.

    ``ratings_per_prompt`` and ``held_out_share`` (0 to 1, of the prompts) translate held-out prompts into ratings.
    """
    if not ratings_per_prompt > 0 or not 0 <= held_out_share <= 1:
        raise ValueError(f"{ratings_per_prompt} ratings a prompt, {held_out_share} of the prompts held out")
    counts = paired_counts(new, current)
    interval = difference_interval(counts, confidence)
    if broken := _not_scored(new):
        return Verdict("reject", interval, None, f"The new version gives no finite score to {broken}.")
    if broken := _not_scored(current):
        return Verdict("undecided", interval, None, f"The version in use gives no finite score to {broken}.")
    figures = _figures(interval, counts, confidence)
    if counts.prompts >= FEWEST_PROMPTS and interval.low > 0:
        return Verdict("promote", interval, None, f"The new version is better: {figures}.")
    if counts.prompts >= FEWEST_PROMPTS and interval.high < 0:
        return Verdict("reject", interval, None, f"The new version is worse: {figures}.")
    needed = _ratings_needed(counts, ratings_per_prompt, held_out_share, confidence)
    return Verdict("undecided", interval, needed, _why_undecided(counts, figures, needed, held_out_share))


def decide_means(
    changes: Sequence[float],
    *,
    held_out_share: float,
    most_prompts: int,
    confidence: float = 0.95,
    words: Words = REWARD,
) -> Verdict:
    """``changes``: of each held-out prompt's reward, from the version in use to the new one.

    What is missing is prompts, not ratings, so ``ratings_needed`` is None; the reason says about how many prompts. No more
    than ``most_prompts`` can be asked.
    """
    interval = mean_interval({str(number): [change] for number, change in enumerate(changes)}, confidence)
    if interval is None:
        interval = Interval(sum(changes), -1.0, 1.0)
    value, low, high = (f"{number:+.3f}" for number in (interval.value, interval.low, interval.high))
    count = f"{len(changes)} {words.thing}{'' if len(changes) == 1 else 's'}"
    figures = f"{value} {words.gain} on {count}, {confidence:.0%} interval {low} to {high}"
    enough = len(changes) >= FEWEST_PROMPTS
    if enough and interval.low > 0:
        return Verdict("promote", interval, None, f"The new version is better: {figures}.")
    if enough and interval.high < 0:
        return Verdict("reject", interval, None, f"The new version is worse: {figures}.")
    if held_out_share == 0:
        reason = f"No {words.thing}s are held out, so the new version cannot be compared; hold out a share of them."
    elif not enough:
        reason = f"{count} held out that could be {words.judged}, and at least {FEWEST_PROMPTS} are needed."
    elif interval.value == 0:
        reason = f"No difference between the two versions: {figures}."
    else:
        more = _more(interval, len(changes), held_out_share, most_prompts, words.thing)
        reason = f"The difference could be chance: {figures}{more}."
    return Verdict("undecided", interval, None, reason)


def _more(interval: Interval, prompts: int, held_out_share: float, most_prompts: int, thing: str) -> str:
    """The interval shrinks with the root of the number of prompts."""
    needed = prompts * ((interval.high - interval.value) / abs(interval.value)) ** 2
    if needed > most_prompts:
        return f"; it is too small to be told on {most_prompts} {thing}s"
    return f"; about {_round_up((needed - prompts + 1) / held_out_share):,} more {thing}s should decide"


def _not_scored(scores: Sequence[PairScore]) -> str:
    """Names how many pairs have a score that is no finite number; empty when all is well."""
    broken = sum(not (math.isfinite(score.chosen_logp) and math.isfinite(score.rejected_logp)) for score in scores)
    return f"{broken} of {len(scores)} held-out pairs" if broken else ""


def _ratings_needed(
    counts: PairedCounts, ratings_per_prompt: float, held_out_share: float, confidence: float
) -> int | None:
    prompts = needed_prompts(counts, confidence)
    if counts.prompts < FEWEST_PROMPTS:
        prompts = max(prompts or 0, FEWEST_PROMPTS)
    if prompts is None or held_out_share == 0:
        return None
    return _round_up((prompts - counts.prompts) * ratings_per_prompt / held_out_share)


def _round_up(number: float) -> int:
    """To two digits: more would claim to know."""
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit


def _why_undecided(counts: PairedCounts, figures: str, needed: int | None, held_out_share: float) -> str:
    ask = f"; about {needed:,} more ratings should decide" if needed else ""
    if held_out_share == 0:
        return "No prompts are held out, so the new version cannot be compared; hold out a share of them."
    if counts.prompts < FEWEST_PROMPTS:
        return f"{_prompts(counts)} held out, and at least {FEWEST_PROMPTS} are needed{ask}."
    if counts.difference == 0:
        return f"No difference between the two versions on {_prompts(counts)} held out ({figures})."
    return f"The difference could be chance: {figures}{ask}."


def _figures(interval: Interval, counts: PairedCounts, confidence: float) -> str:
    value, low, high = (f"{100 * number:+.1f}" for number in (interval.value, interval.low, interval.high))
    return f"{value} points on {_prompts(counts)}, {confidence:.0%} interval {low} to {high}"


def _prompts(counts: PairedCounts) -> str:
    return f"{counts.prompts} prompt{'' if counts.prompts == 1 else 's'}"
