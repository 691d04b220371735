"""Whether a new version may take the place of the one in use.

The answer comes from an interval, never from a point estimate: *promote* when all of it lies above a line, *reject* when all
of it lies below, and otherwise *undecided*. The line is zero, so that a new version must be better; or with a margin, minus
that margin: it must not be worse by more. A difference from the line that is too small to matter is undecided too.

A gate that looks at one version after another has a budget of errors for all of its looks: the more it has looked since it
last promoted, the wider is the interval that has to lie above the line. Rejecting leaves all as it is, so the 95 % interval
does for it at every look."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import variance
from typing import Literal, NamedTuple

from rl.base.measurements import Interval, PairScore
from rl.evaluation.stats.budget import ONCE, Look
from rl.evaluation.stats.intervals import counts_of, difference_interval, mean_interval, prompt_changes, sign_flip_p
from rl.evaluation.stats.sample_size import SampleSizePlan, gain_of_prompts, plan


class Words(NamedTuple):
    """About what was measured: words for a sentence, and how numbers are written in it."""

    gain: str
    thing: str
    judged: str
    smallest: float
    """The smallest difference that matters."""
    largest: float | None = None
    """The largest change that a prompt can have; None for the largest that was seen."""
    scale: int = 1
    digits: int = 3

    def write(self, number: float) -> str:
        return f"{self.scale * number:+.{self.digits}f}"

    def amount(self, number: float) -> str:
        value = f"{self.scale * number:.3g}"
        return f"{value} {self.gain.replace('points', 'point') if value == '1' else self.gain}"

    def number_of(self, number: int) -> str:
        return f"{number} {self.thing}{'' if number == 1 else 's'}"


ACCURACY = Words("points", "prompt", "", 0.01, 1, 100, 1)
REWARD, SUCCESS, FIELDS, RIGHT = (
    Words("reward", "prompt", " that could be rewarded", 0.005),
    Words("solved", "task", " that could be played", 0.01, 1),
    Words("of answers right", "prompt", " that could be answered", 0.01, 1),
    Words("points", "prompt", " that could be answered", 0.01, 1, 100, 1),
)


def percent(error: float) -> str:
    """1 - ``error``, with as many decimals as tell it from 100 %: 97%, 99.6%, 99.98%."""
    return f"{100 - 100 * error:.{max(0, -math.floor(math.log10(100 * error)))}f}%"


def round_up(number: float) -> int:
    """To two digits: more would claim to know."""
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit


FEWEST_PROMPTS = 8
"""With fewer held-out prompts nothing is decided, whatever they say."""
FEWEST_DIFFERENT = 10
"""Prompts on which the versions differ; fewer say too little about how many would decide."""

MOST_EXACT = 500
"""Prompts on which the versions differ that an exact test takes a moment for; with more, the interval is as good."""

Decision = Literal["promote", "reject", "undecided"]


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Decision
    difference: Interval
    """Accuracy, or mean reward, of the new version minus that of the one in use, -1 to 1, at 95 %."""
    reason: str
    """One sentence for people."""


@dataclass(frozen=True)
class _Case:
    """What a verdict is made from."""

    changes: Sequence[float]
    shown: Interval
    """At 95 %."""
    sure: Interval
    """At the confidence that this look needs."""
    words: Words
    look: Look
    margin: float
    held_out_share: float

    @cached_property
    def chance(self) -> float:
        """How likely luck does as well, exactly; 0 where that is not asked: of one look alone, of so many prompts that the
        interval is exact enough, and of a margin, for which there is no such test."""
        different = [change for change in self.changes if change]
        asked = self.look.level < ONCE.level and not self.margin and len(different) <= MOST_EXACT
        return sign_flip_p(different) if asked else 0.0

    @property
    def holds(self) -> bool:
        """What this look needs."""
        return self.sure.low > -self.margin and self.chance <= self.look.level

    @property
    def below(self) -> str:
        """The margin in words; empty without one."""
        return f" by more than {self.words.amount(self.margin)}" if self.margin else ""

    @property
    def figures(self) -> str:
        write = self.words.write
        value, low, high = map(write, (self.shown.value, self.shown.low, self.shown.high))
        prompts = self.words.number_of(len(self.changes))
        figures = f"{value} {self.words.gain} on {prompts}, 95% interval {low} to {high}"
        if self.look.number is None or self.shown.low <= -self.margin:
            return figures
        if self.sure.low > -self.margin and not self.holds:
            holds = f"and an exact test has {percent(2 * self.chance)}"
        else:
            interval = f"{write(self.sure.low)} to {write(self.sure.high)}"
            holds = f"which {'holds' if self.holds else 'does not hold'}: {interval}"
        return f"{figures}; look {self.look.number} needs {percent(2 * self.look.level)}, {holds}"


def decide(new: Sequence[PairScore], current: Sequence[PairScore], *, held_out_share: float) -> Verdict:
    """How two models rank. Both must have scored the same pairs in the same order, else ValueError. No pairs at all is
    undecided. ``held_out_share``: of the prompts, 0 to 1."""
    changes = prompt_changes(new, current)
    shown = difference_interval(counts_of(changes))
    if broken := not_scored(new):
        return Verdict("reject", shown, f"The new version gives no finite score to {broken}.")
    if broken := not_scored(current):
        return Verdict("undecided", shown, f"The version in use gives no finite score to {broken}.")
    case = _Case(changes, shown, shown, ACCURACY, ONCE, 0.0, held_out_share)
    return _settle(case) or Verdict("undecided", shown, _why_undecided(case, ""))


def decide_means(
    changes: Sequence[float],
    *,
    held_out_share: float,
    most_prompts: int,
    look: Look = ONCE,
    words: Words = REWARD,
    margin: float = 0.0,
) -> Verdict:
    """``changes``: of each held-out prompt's reward, from the version in use to the new one.

    An undecided verdict says about how many more prompts would show a better version. No more than ``most_prompts`` can be
    asked. ``look``: of an agent's series of looks, ``budget.at_look``. ``margin``: loss of reward that is bearable, 0 to 1.
    """
    shown = sure = interval_of_mean(changes, ONCE.confidence)
    if look.level < ONCE.level:
        # one more change at each end of what is possible, as Agresti and Caffo (2000, Am. Stat. 54:280-288) do with
        # shares: a loss that is rare and large may not have come up yet
        end = words.largest or max(map(abs, changes), default=0.0)
        sure = interval_of_mean([*changes, end, -end], look.confidence)
    case = _Case(changes, shown, sure, words, look, margin, held_out_share)
    return _settle(case) or _ask_for_prompts(case, most_prompts)


def interval_of_mean(changes: Sequence[float], confidence: float) -> Interval:
    interval = mean_interval({str(number): [change] for number, change in enumerate(changes)}, confidence)
    return interval or Interval(sum(changes), -1.0, 1.0)


def _settle(case: _Case) -> Verdict | None:
    """None where the interval holds the line, or does not lie above it surely enough for this look."""
    if len(case.changes) < FEWEST_PROMPTS or case.shown.low <= -case.margin <= case.shown.high:
        return None
    if abs(case.shown.value + case.margin) < case.words.smallest - 1e-12:
        line = f" from a loss of {case.words.amount(case.margin)}" if case.margin else ""
        smallest = case.words.amount(case.words.smallest)
        reason = f"The difference{line} is too small to matter, less than {smallest}: {case.figures}."
        return Verdict("undecided", case.shown, reason)
    if case.shown.high < -case.margin:
        return Verdict("reject", case.shown, f"The new version is worse{case.below}: {case.figures}.")
    if case.holds:
        comparison = "better" if case.sure.low > 0 else f"not worse{case.below}"
        return Verdict("promote", case.shown, f"The new version is {comparison}: {case.figures}.")
    return None


def _ask_for_prompts(case: _Case, most_prompts: int) -> Verdict:
    planned, ask = _plan(case) if case.held_out_share else None, ""
    if planned and len(case.changes) + planned.more <= most_prompts:
        more = f"{round_up(planned.more / case.held_out_share):,} more {case.words.thing}s"
        ask = f"; a version that is better by {case.words.amount(planned.gain)} would show with about {more}"
    elif planned:
        gain = gain_of_prompts(variance(case.changes), most_prompts, case.look.next_level) - case.margin
        most = f"{case.words.number_of(most_prompts)}, the most that are asked"
        ask = f"; on {most}, a version that is better by {case.words.amount(gain)} would show" if gain > 0 else ""
    return Verdict("undecided", case.shown, _why_undecided(case, ask))


def _plan(case: _Case) -> SampleSizePlan | None:
    if sum(change != 0 for change in case.changes) < FEWEST_DIFFERENT or not all(map(math.isfinite, case.changes)):
        return None
    return plan(variance(case.changes), len(case.changes), case.look.next_level, case.margin)


def _why_undecided(case: _Case, ask: str) -> str:
    thing, prompts = case.words.thing, len(case.changes)
    if case.held_out_share == 0:
        return f"No {thing}s are held out, so the new version cannot be compared; hold out a share of them."
    if prompts < FEWEST_PROMPTS:
        count = f"{case.words.number_of(prompts)} held out{case.words.judged}"
        return f"{count}, and at least {FEWEST_PROMPTS} are needed{ask}."
    if case.shown.value == 0 and not case.margin:
        return f"No difference between the two versions: {case.figures}{ask}."
    start = f"Whether the new version is worse{case.below} is open" if case.margin else "The difference could be chance"
    return f"{start}: {case.figures}{ask}."


def not_scored(scores: Sequence[PairScore]) -> str:
    """Names how many pairs have a score that is not a finite number; empty when all is well."""
    broken = sum(not (math.isfinite(score.chosen_logp) and math.isfinite(score.rejected_logp)) for score in scores)
    return f"{broken} of {len(scores)} held-out pairs" if broken else ""
