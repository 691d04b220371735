from __future__ import annotations

import pytest

from rl.raters.bradley_terry import Game, rank


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
