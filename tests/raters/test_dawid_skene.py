from __future__ import annotations

import random

from rl.raters.dawid_skene import LEAST_ITEMS, fit

RATERS = [f"rater {number}" for number in range(10)]
TURNED = set(RATERS[:2])


def votes(items: int, a_vote: int = 3, seed: int = 1) -> tuple[list[bool], list[list[tuple[str, bool]]]]:
    """A tenth of the votes are wrong by chance, and those of the two who are turned round in nine of ten cases."""
    rng = random.Random(seed)
    truth = [rng.random() < 0.5 for _ in range(items)]
    return truth, [
        [(rater, yes == ((rng.random() < 0.9) != (rater in TURNED))) for rater in rng.sample(RATERS, a_vote)]
        for yes in truth
    ]


def test_whoever_is_turned_round_is_named_and_the_truth_comes_out():
    truth, cast = votes(400)
    reliability = fit(dict(enumerate(cast)))
    assert reliability is not None
    assert reliability.worse_than_chance() == TURNED
    assert all(abs(right - (0.1 if rater in TURNED else 0.9)) < 0.1 for rater, right in reliability.accuracy.items())
    wrong = sum((reliability.posterior(said) > 0.5) != yes for yes, said in zip(truth, cast, strict=True))
    majority = sum((sum(v for _, v in said) > 1) != yes for yes, said in zip(truth, cast, strict=True))
    assert wrong < majority / 2


def test_items_with_two_votes_tell_nothing():
    assert fit(dict(enumerate(votes(400, a_vote=2)[1]))) is None
    assert fit(dict(enumerate(votes(LEAST_ITEMS - 1)[1]))) is None


def test_a_rater_whom_nobody_knows_counts_a_little():
    reliability = fit(dict(enumerate(votes(100)[1])))
    assert reliability is not None
    assert 0.7 < reliability.posterior([("somebody", True)]) < 0.9
    assert reliability.posterior([]) == 0.5
