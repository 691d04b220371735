"""What a fifth of the raters does who say the opposite of what they think, and how many of them are named: a Markdown table.

    .venv/bin/python benchmarks/rater_poisoning.py

Twenty simulated raters, four of them turned round; each is wrong in a tenth of the cases beside that. Nothing is trained.
With three votes an item the one-coin model of Dawid and Skene estimates the right label. With one vote an item nothing can
be compared: what is left is a gold item in twenty, and a judge that agrees with the truth in JUDGE of the cases. A
repeat does not tell those who are turned round, for they are of one mind.
"""

import math
import random
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rl.raters.dawid_skene import NAMED, fit

RATERS, TURNED, NOISE = 20, 4, 0.1
GOLD: Final = 0.05
JUDGE: Final = 0.65
ITEMS: Final = (200, 400, 1000)
SEEDS: Final = range(200)
HONEST: Final = 0.9
"""How often an honest rater is right, and one who is turned round wrong."""


class Outcome(NamedTuple):
    before: float
    """Share of wrong labels."""
    after: float
    named: float
    """Share of those who are turned round."""
    wrongly: float
    """Share of the honest."""


def main() -> None:
    print("| items | votes an item | wrong labels before | after | turned round: named | honest: named wrongly |")
    print("|---|---|---|---|---|---|")
    for votes, simulate in ((3, three_votes), (1, one_vote)):
        for items in ITEMS:
            outcomes = [simulate(items, random.Random(seed)) for seed in SEEDS]
            shares = [f"{fmean(column):.1%}" for column in zip(*outcomes, strict=True)]
            print(f"| {items} | {votes} | " + " | ".join(shares) + " |")


def vote(rater: int, good: bool, rng: random.Random) -> bool:
    return good == ((rng.random() >= NOISE) != (rater < TURNED))


def three_votes(items: int, rng: random.Random) -> Outcome:
    truth = [rng.random() < 0.5 for _ in range(items)]
    cast = [[(str(rater), vote(rater, good, rng)) for rater in rng.sample(range(RATERS), 3)] for good in truth]
    reliability = fit(dict(enumerate(cast)))
    if reliability is None:
        raise SystemExit("too few items")
    before = [(sum(yes for _, yes in votes) > 1) != good for votes, good in zip(cast, truth, strict=True)]
    after = [(reliability.posterior(votes) > 0.5) != good for votes, good in zip(cast, truth, strict=True)]
    return Outcome(fmean(before), fmean(after), *score({int(name) for name in reliability.worse_than_chance()}))


def one_vote(items: int, rng: random.Random) -> Outcome:
    """Labels of whoever is named are left out."""
    labels: list[tuple[int, bool]] = []
    odds: defaultdict[int, float] = defaultdict(float)  # log of the odds that a rater is honest
    for number in range(items):
        rater, good = number % RATERS, rng.random() < 0.5
        label = vote(rater, good, rng)
        labels.append((rater, label != good))
        odds[rater] += speak(label == (good == (rng.random() < JUDGE)), JUDGE)
        if rng.random() < GOLD:
            odds[rater] += speak(vote(rater, good, rng) == good, 1.0)
    named = {rater for rater in range(RATERS) if odds[rater] + math.log(0.9 / 0.1) < math.log(NAMED / (1 - NAMED))}
    left = [wrong for rater, wrong in labels if rater not in named]
    return Outcome(fmean(wrong for _, wrong in labels), fmean(left), *score(named))


def speak(agrees: bool, sure: float) -> float:
    """What agreement, or none, with somebody who is right in ``sure`` of the cases says for honesty: log of the odds."""
    agree = HONEST * sure + (1 - HONEST) * (1 - sure)
    return math.log(agree / (1 - agree)) * (1 if agrees else -1)


def score(named: set[int]) -> tuple[float, float]:
    turned = {rater for rater in named if rater < TURNED}
    return len(turned) / TURNED, len(named - turned) / (RATERS - TURNED)


if __name__ == "__main__":
    main()
