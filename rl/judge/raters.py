"""How far each rater's ratings can be relied on, by what all the others' say.

A rater is either honest, and right in HONEST of the cases, or turned round, and wrong in as many: somebody who mistakes
the thumbs, clicks at random in anger, or wants the model to be worse. With q the probability that a judge, which has not
seen the prompt's labels, gives a rating to be right, the rater's ratings speak for honesty by

    sum of log(a q + (1 - a)(1 - q)),  a = HONEST, and against it by the same sum with a = 1 - HONEST

and P is the posterior from PRIOR, the share of honest raters. The judge learns again from ratings that weigh twice the
probability of being right, less one, ROUNDS times (after Dawid and Skene, 1979, with the judge in the place of the unknown
truth). Ratings are taken one by one for this, also where several made one row. Figures are in docs/decisions/judge.md.

What a row weighs afterwards is the same of the row: how likely its chosen answer is the better one by all of its votes, as
a share of what they would say if all raters were honest. Where they say the opposite as surely as TURNED, the row is turned
round instead of left out.

A judge that can tell nothing gives q = 1/2, and then nobody is doubted more than anybody else."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from rl.base.records import Vote
from rl.judge.head import Head, fit, sigmoid
from rl.judge.labels import FOLDS, LEAST_RATERS, Opinion, fold_of

Weigh = Callable[[list[Opinion]], list[Opinion]]


@dataclass(frozen=True, slots=True)
class CrossFittedJudge:
    """A judge that has never seen a label of the prompt whose answers it compares. The prompts are cut into FOLDS by a
    hash, and the answers to those of a fold are judged by a head that has learned from the other folds. So every label
    tells how good the judge is, and none of them has taught what it checks (cross-prediction: Zrnic and Candès, 2024, PNAS
    121:e2322083121)."""

    heads: tuple[Head, ...]
    """One for each fold, from the labels of the others."""

    def preference(self, features: np.ndarray, better: int, worse: int, prompt: str) -> float:
        """How likely people prefer the one answer to the other, 0 to 1."""
        ratings = self.heads[fold_of(prompt)].ratings(features[[better, worse]])
        return float(sigmoid(ratings[0] - ratings[1]))

    def agreement(self, features: np.ndarray, opinion: Opinion) -> float:
        """How likely the opinion is right, 0 to 1."""
        if opinion.other is not None:
            return self.preference(features, opinion.answer, opinion.other, opinion.prompt)
        good = float(self.heads[fold_of(opinion.prompt)].goodness(features[[opinion.answer]])[0])
        return good if opinion.value > 0.5 else 1 - good


def cross_fit(features: np.ndarray, opinions: Sequence[Opinion], *, weigh: Weigh = list) -> CrossFittedJudge | None:
    """``weigh``: what becomes of the opinions that a head learns from. None where a fold's complement holds no opinion, or
    labels of one kind alone."""
    heads = []
    for fold in range(FOLDS):
        others = weigh([opinion for opinion in opinions if fold_of(opinion.prompt) != fold])
        labels = {opinion.value > 0.5 for opinion in others if opinion.other is None}
        if len(labels) < 2 and all(opinion.other is None for opinion in others):
            return None  # they tell nothing apart
        heads.append(fit(features, others))
    return CrossFittedJudge(tuple(heads))


HONEST: Final = 0.9
PRIOR: Final = 0.9
ROUNDS: Final = 3
DOUBTED: Final = 0.5
"""Whoever weighs less says more often the opposite of the others than what they say."""
Trust = Mapping[str, float]
"""For each rater 1 honest, 0 as good as a coin, -1 always turned round."""
TURNED: Final = -0.5
"""The share at which the opposite of a row is learned."""
_LARGEST_LOGIT: Final = 20.0


def trust_raters(features: np.ndarray, opinions: Sequence[Opinion]) -> Trust:
    """Empty where there are too few raters, or too few opinions for a judge: then all are relied on alike."""
    trust: Trust = {}
    if len({vote.rater for opinion in opinions for vote in opinion.votes}) < LEAST_RATERS:
        return trust
    ratings = list(dict.fromkeys(rating for opinion in opinions for rating in _ratings_of(opinion)))
    for _ in range(ROUNDS):
        judge = cross_fit(features, weigh_opinions(ratings, trust))
        if judge is None:
            return trust
        trust = _by_judge(judge, features, ratings)
    return trust


def cross_fit_by_trust(features: np.ndarray, opinions: Sequence[Opinion]) -> CrossFittedJudge | None:
    """As ``cross_fit``; each fold's head relies on raters as far as the labels of the other folds tell."""
    return cross_fit(features, opinions, weigh=lambda others: weigh_opinions(others, trust_raters(features, others)))


def weigh_opinions(opinions: Iterable[Opinion], trust: Trust) -> list[Opinion]:
    """Without those of which nothing is left, and turned round where their raters are."""
    shares = ((opinion, share_of(opinion.votes, trust)) for opinion in opinions)
    return [
        replace(opinion if share > 0 else _opposite(opinion), weight=opinion.weight * abs(share))
        for opinion, share in shares
        if share
    ]


def _opposite(opinion: Opinion) -> Opinion:
    if opinion.other is None:
        return replace(opinion, value=1 - opinion.value)
    return replace(opinion, answer=opinion.other, other=opinion.answer)


def share_of(votes: Sequence[Vote], trust: Trust) -> float:
    """What is left of the weight of a row with these votes, 0 to 1, and from TURNED to -1 what its opposite weighs; 1
    without votes, and where honest raters would not have made it. Unknown raters are relied on."""
    of_honest = _lean(votes, {})
    if of_honest <= 0 or not trust:
        return 1.0
    share = max(-1.0, min(1.0, _lean(votes, trust) / of_honest))
    return share if share > 0 or share <= TURNED else 0.0


def _lean(votes: Sequence[Vote], trust: Trust) -> float:
    """Twice the probability that the row is right, less one: picks tell which answer is better, ratings of one answer
    whether that is good."""
    logits: defaultdict[str, float] = defaultdict(float)
    for rater, agrees, about in votes:
        right = 0.5 + (HONEST - 0.5) * trust.get(rater, 1.0)
        logits[about] += float(np.log(right / (1 - right))) * (1 if agrees else -1)
    good, bad = (float(sigmoid(np.array(logits[about]))) for about in ("chosen", "rejected"))
    better = (good + bad) / 2  # the chosen one is good and the rejected bad, and of two alike each as often
    logit = logits[""] + float(np.log(max(better, 1e-9) / max(1 - better, 1e-9)))
    return 2 * float(sigmoid(np.array(np.clip(logit, -_LARGEST_LOGIT, _LARGEST_LOGIT)))) - 1


def _ratings_of(opinion: Opinion) -> Iterator[Opinion]:
    """What each rater said for himself; the opinion itself where nobody knows who has it."""
    if not opinion.votes:
        yield opinion
    for rater, agrees, about in opinion.votes:
        answer, other, value = opinion.answer, opinion.other, opinion.value
        if about and other is not None:
            is_chosen = about == "chosen"
            answer, other, value = answer if is_chosen else other, None, float(agrees == is_chosen)
        elif not agrees:
            answer, other, value = (answer, None, 1 - value) if other is None else (other, answer, value)
        yield Opinion(answer, other, value, prompt=opinion.prompt, votes=(Vote(rater, True),))


def _by_judge(judge: CrossFittedJudge, features: np.ndarray, ratings: Sequence[Opinion]) -> Trust:
    # log of how likely a rater's votes are if honest, and if turned round
    honest: defaultdict[str, float] = defaultdict(float)
    turned: defaultdict[str, float] = defaultdict(float)
    for rating in ratings:
        q = judge.agreement(features, rating)
        for rater, *_ in rating.votes:
            honest[rater] += np.log(HONEST * q + (1 - HONEST) * (1 - q))
            turned[rater] += np.log((1 - HONEST) * q + HONEST * (1 - q))
    odds = {rater: np.log(PRIOR / (1 - PRIOR)) + honest[rater] - turned[rater] for rater in honest}
    trust = {}
    for rater, logit in odds.items():
        posterior = float(sigmoid(logit))
        right = HONEST * posterior + (1 - HONEST) * (1 - posterior)
        trust[rater] = round((2 * right - 1) / (2 * HONEST - 1), 4)
    return trust
