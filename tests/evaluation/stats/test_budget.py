import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.evaluation.stats.budget import FIRST_STAKE, LATER_STAKES, ONCE, SLOW, TOTAL, at_look, level, stake


def test_the_first_looks_have_half_of_the_budget():
    # by hand: 0.025 (1/2 + 100/(100 * 101)), 0.025 (1/6 + 100/(101 * 102)), 0.025 (1/12 + 100/(102 * 103))
    assert [level(look) for look in (1, 2, 3)] == pytest.approx([0.0127475, 0.0044093, 0.0023213], abs=1e-7)


@pytest.mark.parametrize("looks", [1, 10, 200, 5000])
def test_all_looks_together_spend_what_the_sum_says_and_never_all_of_it(looks: int):
    spent = math.fsum(map(level, range(1, looks + 1)))
    assert spent == pytest.approx(TOTAL * (1 - (1 / (looks + 1) + SLOW / (looks + SLOW)) / 2))
    assert spent < TOTAL


@given(st.integers(1, 10**6))
def test_a_later_look_is_stricter_and_never_hopeless(look: int):
    assert level(look) > level(look + 1) > 0
    assert level(look) < ONCE.level


def test_look_150_can_still_promote_what_is_four_standard_errors_better():
    assert level(150) > 0.00003167  # one-sided, of four standard errors


def test_a_look_knows_the_one_after_it():
    look = at_look(7)
    assert (look.level, look.next_level, look.number) == (level(7), level(8), 7)
    assert look.confidence == pytest.approx(1 - 2 * level(7))
    assert ONCE.confidence == 0.95


@pytest.mark.parametrize("look", [0, -3])
def test_looks_count_from_one(look: int):
    with pytest.raises(ValueError, match="count from 1"):
        level(look)


def test_the_first_version_that_people_are_asked_about_has_the_largest_stake():
    assert stake([]) == FIRST_STAKE
    assert stake([(FIRST_STAKE, 0.0)]) == pytest.approx(LATER_STAKES * (TOTAL - FIRST_STAKE))


@given(st.lists(st.floats(0, 100), max_size=50))
def test_whatever_the_picks_were_the_stakes_never_exceed_the_budget(evidence: list[float]):
    staked: list[tuple[float, float]] = []
    for of_version in evidence:
        staked.append((stake(staked), of_version))
    lost = math.fsum(of * (1 - min(of_version, 1)) for of, of_version in staked)
    assert 0 < lost + stake(staked) <= TOTAL
    assert stake([*staked, (stake(staked), 0.0)]) > 0


def test_one_that_was_well_ahead_gives_back_its_stake_and_no_more():
    assert stake([(FIRST_STAKE, 60.0)]) == stake([(FIRST_STAKE, 1.0)]) == pytest.approx(LATER_STAKES * TOTAL)
