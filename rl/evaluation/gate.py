"""Whether a new version may take the place of the one in use.

The answer comes from an interval, never from a point estimate: *promote* when all of it lies above a line, *reject* when all
of it lies below, and otherwise *undecided*, with about how many more ratings would settle it at the rates seen so far. The
line is zero, so that a new version must be better; or with a margin, minus that margin: it must not be worse by more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rl.base.records import Interval, PairScore
from rl.evaluation.stats.intervals import PairedCounts, difference_interval, mean_interval, paired_counts
from rl.evaluation.stats.sample_size import needed_prompts

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
    margin: float = 0.0,
    things: str = "ratings",
) -> Verdict:
    """Both must have scored the same pairs in the same order, else ValueError. No pairs at all is undecided.

    ``ratings_per_prompt`` and ``held_out_share`` (0 to 1, of the prompts) translate held-out prompts into ratings.
    ``margin``: loss of accuracy that is bearable, 0 to 1; ``things``: what more of is asked for.
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
    line = f" by more than {100 * margin:g} point{'' if margin == 0.01 else 's'}" if margin else ""
    if counts.prompts >= FEWEST_PROMPTS and (verdict := _settle(interval, margin, line, figures)):
        return verdict
    needed = _ratings_needed(counts, ratings_per_prompt, held_out_share, confidence, margin)
    ask = f"; about {needed:,} more {things} should decide" if needed else ""
    return Verdict("undecided", interval, needed, _why_undecided(counts, figures, ask, held_out_share, line))


def _settle(interval: Interval, margin: float, line: str, figures: str) -> Verdict | None:
    """``line``: the margin in words; empty without one. None where the interval holds the line."""
    if interval.low > 0:
        return Verdict("promote", interval, None, f"The new version is better: {figures}.")
    if interval.low > -margin:
        return Verdict("promote", interval, None, f"The new version is not worse{line}: {figures}.")
    if interval.high < -margin:
        return Verdict("reject", interval, None, f"The new version is worse{line}: {figures}.")
    return None


def decide_means(
    changes: Sequence[float],
    *,
    held_out_share: float,
    most_prompts: int,
    confidence: float = 0.95,
    words: Words = REWARD,
    margin: float = 0.0,
) -> Verdict:
    """``changes``: of each held-out prompt's reward, from the version in use to the new one.

    What is missing is prompts, not ratings, so ``ratings_needed`` is None; the reason says about how many prompts. No more
    than ``most_prompts`` can be asked. ``margin``: loss of reward that is bearable, 0 to 1.
    """
    interval = mean_interval({str(number): [change] for number, change in enumerate(changes)}, confidence)
    if interval is None:
        interval = Interval(sum(changes), -1.0, 1.0)
    value, low, high = (f"{number:+.3f}" for number in (interval.value, interval.low, interval.high))
    count = f"{len(changes)} {words.thing}{'' if len(changes) == 1 else 's'}"
    figures = f"{value} {words.gain} on {count}, {confidence:.0%} interval {low} to {high}"
    line = f" by more than {margin:g} {words.gain}" if margin else ""
    enough = len(changes) >= FEWEST_PROMPTS
    if enough and (verdict := _settle(interval, margin, line, figures)):
        return verdict
    if held_out_share == 0:
        reason = f"No {words.thing}s are held out, so the new version cannot be compared; hold out a share of them."
    elif not enough:
        reason = f"{count} held out that could be {words.judged}, and at least {FEWEST_PROMPTS} are needed."
    elif not margin and interval.value == 0:
        reason = f"No difference between the two versions: {figures}."
    else:
        more = _more(interval, margin, len(changes), held_out_share, most_prompts, words.thing)
        reason = f"{_open(line)}: {figures}{more}."
    return Verdict("undecided", interval, None, reason)


def _open(line: str) -> str:
    return f"Whether the new version is worse{line} is open" if line else "The difference could be chance"


def _more(interval: Interval, margin: float, prompts: int, held_out_share: float, most_prompts: int, thing: str) -> str:
    """The interval shrinks with the root of the number of prompts."""
    away = abs(interval.value + margin)
    needed = prompts * ((interval.high - interval.value) / away) ** 2 if away else math.inf
    if needed > most_prompts:
        return f"; it is too small to be told on {most_prompts} {thing}s"
    return f"; about {_round_up((needed - prompts + 1) / held_out_share):,} more {thing}s should decide"


def _not_scored(scores: Sequence[PairScore]) -> str:
    """Names how many pairs have a score that is not a finite number; empty when all is well."""
    broken = sum(not (math.isfinite(score.chosen_logp) and math.isfinite(score.rejected_logp)) for score in scores)
    return f"{broken} of {len(scores)} held-out pairs" if broken else ""


def _ratings_needed(
    counts: PairedCounts, ratings_per_prompt: float, held_out_share: float, confidence: float, margin: float
) -> int | None:
    prompts = needed_prompts(counts, confidence, margin)
    if counts.prompts < FEWEST_PROMPTS:
        prompts = max(prompts or 0, FEWEST_PROMPTS)
    if prompts is None or held_out_share == 0:
        return None
    return _round_up((prompts - counts.prompts) * ratings_per_prompt / held_out_share)


def _round_up(number: float) -> int:
    """To two digits: more would claim to know."""
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit


def _why_undecided(counts: PairedCounts, figures: str, ask: str, held_out_share: float, line: str) -> str:
    if held_out_share == 0:
        return "No prompts are held out, so the new version cannot be compared; hold out a share of them."
    if counts.prompts < FEWEST_PROMPTS:
        return f"{_prompts(counts)} held out, and at least {FEWEST_PROMPTS} are needed{ask}."
    if counts.difference == 0 and not line:
        return f"No difference between the two versions on {_prompts(counts)} held out ({figures})."
    return f"{_open(line)}: {figures}{ask}."


def _figures(interval: Interval, counts: PairedCounts, confidence: float) -> str:
    value, low, high = (f"{100 * number:+.1f}" for number in (interval.value, interval.low, interval.high))
    return f"{value} points on {_prompts(counts)}, {confidence:.0%} interval {low} to {high}"


def _prompts(counts: PairedCounts) -> str:
    return f"{counts.prompts} prompt{'' if counts.prompts == 1 else 's'}"
