"""How far each rater's ratings can be relied on, by what all the others' say.

A rater is either honest, and right in HONEST of the cases, or turned round, and wrong in as many: somebody who mistakes
the thumbs, clicks at random in anger, or wants the model to be worse. With q the probability that a judge, which has not
seen the prompt's labels, gives a rating to be right, the rater's ratings speak for honesty by

    sum of log(a q + (1 - a)(1 - q)),  a = HONEST, and against it by the same sum with a = 1 - HONEST

and P is the posterior from PRIOR, the share of honest raters. What a rating weighs is twice the probability that it is
right, less one, as a share of what a rater known to be honest weighs: at least 0. The judge learns again with these
weights, ROUNDS times (after Dawid and Skene, 1979, with the judge in the place of the unknown truth). Figures are in
docs/decisions/judge.md.

A judge that can tell nothing gives q = 1/2, and then nobody is doubted more than anybody else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from rl.base.ratings import Vote
from rl.judge.crossing import Judge, cross_fit
from rl.judge.head import sigmoid
from rl.judge.labels import LEAST_RATERS, Opinion

HONEST: Final = 0.9
PRIOR: Final = 0.9
ROUNDS: Final = 3
SAMPLES: Final = 4
"""Resampled heads that give q: twelve tell no more, and take three times as long."""
DOUBTED: Final = 0.5
"""Whoever weighs less says more often the opposite of the others than what they say."""
Trust = Mapping[str, float]
"""0 to 1 for each rater."""


def trust_raters(features: np.ndarray, opinions: Sequence[Opinion]) -> Trust:
    """Empty where there are too few raters, or too few opinions for a judge: then all are relied on alike."""
    trust: Trust = {}
    if len({rater for opinion in opinions for rater, _ in opinion.votes}) < LEAST_RATERS:
        return trust
    for _ in range(ROUNDS):
        judge = cross_fit(features, weigh_opinions(opinions, trust), resamples=SAMPLES)
        if judge is None:
            return trust
        trust = _by_judge(judge, features, opinions)
    return trust


def cross_fit_by_trust(features: np.ndarray, opinions: Sequence[Opinion]) -> Judge | None:
    """As ``cross_fit``; each fold's head relies on raters as far as the labels of the other folds tell."""
    return cross_fit(features, opinions, weigh=lambda others: weigh_opinions(others, trust_raters(features, others)))


def weigh_opinions(opinions: Iterable[Opinion], trust: Trust) -> list[Opinion]:
    """Without those of which nothing is left."""
    shares = ((opinion, share_of(opinion.votes, trust)) for opinion in opinions)
    return [replace(opinion, weight=opinion.weight * share) for opinion, share in shares if share > 0]


def share_of(votes: Sequence[Vote], trust: Trust) -> float:
    """What is left of the weight of a row with these votes, 0 to 1; 1 without votes. Unknown raters are relied on."""
    margin = sum(1 if agrees else -1 for _, agrees in votes)
    if margin <= 0 or not trust:
        return 1.0
    trusted = sum(trust.get(rater, 1.0) * (1 if agrees else -1) for rater, agrees in votes)
    return min(1.0, max(0.0, trusted / margin))


def _by_judge(judge: Judge, features: np.ndarray, opinions: Sequence[Opinion]) -> Trust:
    # log of how likely a rater's votes are if honest, and if turned round
    honest: defaultdict[str, float] = defaultdict(float)
    turned: defaultdict[str, float] = defaultdict(float)
    for opinion in opinions:
        q = judge.agreement(features, opinion)
        for rater, agrees in opinion.votes:
            p = q if agrees else 1 - q
            honest[rater] += np.log(HONEST * p + (1 - HONEST) * (1 - p))
            turned[rater] += np.log((1 - HONEST) * p + HONEST * (1 - p))
    odds = {rater: np.log(PRIOR / (1 - PRIOR)) + honest[rater] - turned[rater] for rater in honest}
    return {rater: _weight(float(sigmoid(odds[rater]))) for rater in odds}


def _weight(posterior: float) -> float:
    right = HONEST * posterior + (1 - HONEST) * (1 - posterior)
    return round(max(0.0, (2 * right - 1) / (2 * HONEST - 1)), 4)
