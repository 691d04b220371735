"""Intervals for what is measured on held-out pairs.

Prompts are the units everywhere: the pairs of one prompt share its text and its raters, so they are not independent, and
counting them one by one would make every interval too narrow. A prompt contributes the mean over its pairs, so counts of
successes may be fractions; a mean of several outcomes varies less than one outcome, which errs on the safe side.

Letters: n prompts, z and t the two-sided critical values at the confidence.

Fisher's randomisation test of paired changes is exact for any number of prompts, at any level, where the two versions could
change names; intervals promise too much where few prompts have to show 99.9 %: eight gains of eight prompts are one case in
256 of mere chance."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, stdev

from rl.base.measurements import Interval, PairScore, wilson, z_of


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """Two models on the same pairs; ``gained`` and ``lost`` are sums over prompts, each prompt counting at most 1."""

    prompts: int
    gained: float
    """Where the new model is right and the current one wrong."""
    lost: float
    """The reverse."""

    @property
    def difference(self) -> float:
        """Accuracy of the new model minus that of the current one, -1 to 1; 0 when nothing was measured."""
        return (self.gained - self.lost) / self.prompts if self.prompts else 0.0


def prompt_accuracy(scores: Sequence[PairScore], confidence: float = 0.95) -> Interval:
    """Share of the pairs of a prompt that are ranked rightly, averaged over prompts. Raises ValueError for no scores."""
    per_prompt = _means((score.prompt_key, score.credit) for score in scores)
    return wilson(min(math.fsum(per_prompt), len(per_prompt)), len(per_prompt), confidence)


def mean_interval(values_by_prompt: Mapping[str, Sequence[float]], confidence: float = 0.95) -> Interval | None:
    """Student's t interval for the mean of the prompts' means.

    None where there is none to give: fewer than two prompts with values, or a value that is not a finite number."""
    means = [fmean(values) for values in values_by_prompt.values() if values]
    if len(means) < 2 or not all(map(math.isfinite, means)):
        return None
    # value +- t(n - 1) s / sqrt(n), s the deviation of the prompts' means
    value = fmean(means)
    half = student_t(len(means) - 1, confidence) * stdev(means, value) / math.sqrt(len(means))
    return Interval(value, value - half, value + half)


def prompt_changes(new: Sequence[PairScore], current: Sequence[PairScore]) -> list[float]:
    """For each prompt, the share of right pairs under the new model less that under the current one, -1 to 1.

    Raises ValueError unless both scored the same pairs in the same order."""
    if [score.prompt_key for score in new] != [score.prompt_key for score in current]:
        raise ValueError("the two models must have scored the same pairs in the same order")
    return _means((n.prompt_key, n.credit - c.credit) for n, c in zip(new, current, strict=True))


def counts_of(changes: Sequence[float]) -> PairedCounts:
    """``changes``: one number a prompt, -1 to 1."""
    gained = math.fsum(change for change in changes if change > 0)
    lost = -math.fsum(change for change in changes if change < 0)
    return PairedCounts(len(changes), gained, lost)


def difference_interval(counts: PairedCounts, confidence: float = 0.95) -> Interval:
    """The adjusted Wald interval for paired proportions of Bonett and Price (2012, J. Educ. Behav. Stat. 37:479-488).

    One is added to each of the two discordant counts and two to the total, so it never shrinks to a point: two models that
    agree everywhere on few prompts are not proven equal. The value is the plain difference, without that addition."""
    n = counts.prompts + 2
    gained, lost = (counts.gained + 1) / n, (counts.lost + 1) / n
    # the variance of a difference of paired shares: (gained + lost - (gained - lost)^2) / n
    middle = gained - lost
    half = z_of(confidence) * math.sqrt((gained + lost - middle * middle) / n)
    return Interval(counts.difference, max(-1.0, middle - half), min(1.0, middle + half))


@lru_cache
def student_t(degrees: int, confidence: float = 0.95) -> float:
    """Two-sided critical value of Student's t distribution."""
    if degrees < 1:
        raise ValueError(f"{degrees} degrees of freedom")
    z = z_of(confidence)
    if degrees > 200:  # Fisher and Cornish (1960): here exact to 8 digits
        return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    # bisection: first an upper end, then 80 halvings, more than a float has bits
    low, high = 0.0, 1.0
    while _central_share(high, degrees) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _central_share(middle, degrees) < confidence else (low, middle)
    return high


def _central_share(t: float, degrees: int) -> float:
    """P(-t < T < t), by the finite series of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    # a sum over even powers of the cosine for even degrees, over odd ones and the angle itself for odd degrees
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(2 + odd, degrees + 1, 2):
        total += term
        term *= (k - 1) / k * cosine * cosine
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def _means(pairs: Iterable[tuple[str, float]]) -> list[float]:
    by_prompt: defaultdict[str, list[float]] = defaultdict(list)
    for key, value in pairs:
        by_prompt[key].append(value)
    return [fmean(values) for values in by_prompt.values()]


STEPS = 20
"""Changes are rounded to so many parts of the largest; the test is exact for the rounded ones."""


def sign_flip_p(changes: Sequence[float]) -> float:
    """One-sided, 0 to 1: the share of all ways to turn the signs whose sum is at least that of ``changes``, which must be
    finite numbers. Time grows with the square of the changes that are not zero: at most 0.2 s for 500."""
    unit = max(map(abs, changes), default=0.0) / STEPS
    rounded = [step for change in changes if unit and (step := round(change / unit))]
    common = math.gcd(*rounded)
    steps = [step // common for step in rounded]
    # shares[k]: of all ways, those in which the changes that count as gains sum up to k steps
    shares = [1.0]
    for step in map(abs, steps):
        kept, turned = shares + [0.0] * step, [0.0] * step + shares
        shares = [(one_way + other_way) / 2 for one_way, other_way in zip(kept, turned, strict=True)]
    return sum(shares[sum(step for step in steps if step > 0) :])
