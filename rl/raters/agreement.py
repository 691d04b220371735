"""How far raters agree beyond chance.

Letters, after Krippendorff (2011, Computing Krippendorff's Alpha-Reliability): an item with m >= 2 ratings gives each
ordered pair of them 1 / (m - 1); o(c, k) are the sums of these over pairs of values, n(c) the sums of o over k, n that of
all."""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, combinations, permutations
from typing import Any, Literal

from rl.base.measurements import Interval, wilson


def limit(weights: Collection[int], cap: float, others: int = 0) -> Fraction | None:
    """The most that a rater may weigh; None where nobody weighs more.

    ``weights``: of each rater, 0 too. ``others``: what weighs in all without being any one rater's. It is the L of
    L = c (others + sum min(w, L)) with c = max(cap, 1 / n): n raters cannot all have less than an n-th."""
    if len(weights) < 2:
        return None
    share = max(Fraction(str(cap)), Fraction(1, len(weights)))
    heaviest, rest = sorted(weights, reverse=True), others + sum(weights)
    if heaviest[0] <= share * rest:
        return None
    bound = Fraction(0)
    for capped, weight in enumerate(heaviest, start=1):
        rest -= weight
        bound = share * rest / (1 - capped * share)
        if capped == len(heaviest) or heaviest[capped] <= bound:
            break
    return bound


Metric = Literal["nominal", "ordinal", "interval"]
"""How far two values are apart: not at all or fully; by the ratings between them; by their difference."""
Items = Iterable[Mapping[str, Any]]
"""For each item, rater to value; who did not rate it is left out."""


def percent_agreement(items: Items) -> float | None:
    """Share of the pairs of ratings of one item that are equal, 0 to 1; None where no item has two."""
    equal = [a == b for ratings in items for a, b in combinations(ratings.values(), 2)]
    return sum(equal) / len(equal) if equal else None


def cohens_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen (1960) for two raters, 1 at best, 0 by chance; ``pairs``: what both said of each item. None where nothing
    is to be told: no items, or both always say the same one thing."""
    if not pairs:
        return None
    n, first, second = len(pairs), Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(first[value] * second[value] for value in first) / n**2
    return None if chance == 1 else (sum(a == b for a, b in pairs) / n - chance) / (1 - chance)


def krippendorffs_alpha(items: Items, metric: Metric = "nominal") -> float | None:
    """1 at best, 0 by chance, below 0 where raters contradict each other. None without two ratings of an item, and where all
    values are equal. Values of ``ordinal`` can be sorted, those of ``interval`` are numbers."""
    units = [list(ratings.values()) for ratings in items if len(ratings) > 1]
    values = sorted({value for unit in units for value in unit})
    if len(values) < 2:
        return None
    coincidences: defaultdict[tuple[Any, Any], float] = defaultdict(float)
    for unit in units:
        for pair, number in Counter(permutations(unit, 2)).items():
            coincidences[pair] += number / (len(unit) - 1)
    totals = {value: sum(coincidences[value, other] for other in values) for value in values}  # n(c)
    ends = accumulate(totals[value] for value in values)
    middles = {value: end - totals[value] / 2 for value, end in zip(values, ends, strict=True)}

    def distance(a: Any, b: Any) -> float:
        if metric == "nominal":
            return float(a != b)
        # Ordinal: (sum of n(g) from c to k - (n(c) + n(k)) / 2)^2, the difference of their middles in one long row.
        return float((a - b if metric == "interval" else middles[a] - middles[b]) ** 2)

    # 1 - D_o / D_e = 1 - (n - 1) sum o d / sum n n d
    seen = sum(number * distance(*pair) for pair, number in coincidences.items())
    expected = sum(totals[a] * totals[b] * distance(a, b) for a in values for b in values)
    return 1 - (sum(totals.values()) - 1) * seen / expected


def left_share(sides: Iterable[str]) -> Interval | None:
    """How often a rater takes the left of two answers whose sides were drawn by lot, with Wilson's 95 % interval; one half
    without a bias. ``sides``: ``left`` or ``right`` as shown; anything else is not counted. None where he took none."""
    counts = Counter(sides)
    decided = counts["left"] + counts["right"]
    return wilson(counts["left"], decided) if decided else None
