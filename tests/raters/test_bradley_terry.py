import random

import pytest

from rl.raters.bradley_terry import Game, rank
from rl.raters.dawid_skene import LEAST_ITEMS, fit

RATERS = [f"rater {number}" for number in range(10)]
TURNED = set(RATERS[:2])


def games(left: str, right: str, wins: int, losses: int, ties: int = 0) -> list[Game]:
    scores = [1.0] * wins + [0.0] * losses + [0.5] * ties
    return [Game(left, right, score) for score in scores]


def test_many_games_give_the_share_of_the_games_won():
    first, base = rank(games("v1", "base", 700, 300), "base")
    assert (first.name, first.games, base.games) == ("v1", 1000, 1000)
    assert first.against_base.value == pytest.approx(0.7, abs=0.002)
    assert first.against_base.low == pytest.approx(0.671, abs=0.005)
    assert (base.against_base.value, base.against_base.low) == (0.5, 0.5)


def test_it_does_not_matter_who_stood_on_the_left():
    [one, _] = rank(games("v1", "base", 20, 10, 4), "base")
    [other, _] = rank(games("base", "v1", 10, 20, 4), "base")
    assert one.against_base.value == pytest.approx(other.against_base.value)
    assert 0.5 < one.against_base.value < 24 / 34


def test_a_version_is_placed_by_those_that_it_met():
    standings = rank([*games("v2", "v1", 60, 20), *games("v1", "base", 60, 20)], "base")
    assert [standing.name for standing in standings] == ["v2", "v1", "base"]
    assert standings[0].against_base.value == pytest.approx(0.9, abs=0.03)  # odds of 3 times odds of 3


def test_few_games_give_a_wide_interval_and_none_the_widest():
    [strong, _] = rank(games("v1", "base", 3, 0), "base")
    assert 0.6 < strong.against_base.value < 0.95
    assert strong.against_base.high - strong.against_base.low > 0.4
    unmet = next(standing for standing in rank(games("v3", "v2", 5, 5), "base") if standing.name == "v3")
    assert unmet.against_base.low < 0.1 < 0.9 < unmet.against_base.high


def test_without_games_there_is_the_base_alone():
    assert [standing.name for standing in rank(games("v1", "v1", 3, 3), "base")] == ["base"]


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
