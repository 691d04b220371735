"""E-values of duels, and the interval that holds at every look."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.evaluation.stats.bets import (
    STAKES,
    evidence,
    evidence_against,
    interval,
    least_more,
    picks_needed,
)

shares = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1 / 3]), max_size=60)


def test_it_is_the_mean_over_stakes_of_what_each_would_have_grown_to():
    # by hand, of 14 wins, 4 losses and 2 ties
    by_hand = np.mean([(1 + c) ** 14 * (1 - c) ** 4 for c in STAKES])
    assert evidence([1.0] * 14 + [0.0] * 4 + [0.5] * 2) == pytest.approx(by_hand) == pytest.approx(11.1, abs=0.1)


def test_nothing_is_known_before_the_first_pick():
    assert (evidence([]), evidence_against([])) == (1, 1)
    known = interval([])
    assert (known.value, known.low, known.high) == (0.5, 0, 1)


@given(shares)
def test_turning_all_picks_round_turns_the_evidence_and_the_interval(picks: list[float]):
    turned = [1 - x for x in picks]
    assert evidence(picks) == pytest.approx(evidence_against(turned))
    there, back = interval(picks), interval(turned)
    assert (there.low, there.high) == pytest.approx((1 - back.high, 1 - back.low))
    assert there.low <= there.value <= there.high


@given(shares)
def test_the_order_of_the_picks_does_not_matter(picks: list[float]):
    assert evidence(picks) == pytest.approx(evidence(sorted(picks)))


def grow(picks: list[float], share: float) -> np.ndarray:
    """E of all beginnings at once: the products grow pick by pick."""
    gains = [[np.log1p(c * (x - share) / share) for c in STAKES] for x in picks]
    return np.exp(np.cumsum(gains, axis=0)).mean(axis=1)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.73])
def test_an_interval_leaves_a_share_out_where_the_evidence_refutes_it(share: float):
    for won in range(21):
        picks = [1.0] * won + [0.0] * (20 - won)
        ends, beaten = interval(picks), [1 - x for x in picks]
        assert (ends.low > share) == (evidence(picks, share) >= 40)
        assert (ends.high < share) == (evidence(beaten, 1 - share) >= 40)
        assert grow(picks, share)[-1] == pytest.approx(evidence(picks, share))


@pytest.mark.parametrize("share", [0.3, 0.5, 0.73])
def test_a_share_is_refuted_at_none_of_a_hundred_looks(share: float):
    generator, missed = np.random.default_rng(7), 0
    for _ in range(200):
        picks = [float(pick) for pick in generator.random(100) < share]
        both = (grow(picks, share), grow([1 - x for x in picks], 1 - share))
        missed += any((grown >= 40).any() for grown in both)
    assert missed <= 10


def test_equal_versions_are_hardly_ever_promoted_whoever_looks_after_each_pick():
    generator, level, promoted = np.random.default_rng(8), 0.0128, 0
    for _ in range(1000):
        picks = [float(pick) for pick in generator.random(160) < 0.5]
        promoted += bool((grow(picks, 0.5) >= 1 / level).any())
    assert promoted / 1000 <= level + 0.01


def test_so_many_more_decide_and_not_one_fewer():
    picks = [1.0] * 14 + [0.0] * 4 + [0.5] * 2
    more = least_more(picks, 0.0128)
    assert more == 5
    assert evidence([*picks, *[1.0] * more]) >= 1 / 0.0128 > evidence([*picks, *[1.0] * (more - 1)])


def test_the_picks_that_are_needed_promote_in_four_of_five_cases():
    number, level = picks_needed(0.73, 0.0128), 0.0128
    assert number == 64
    generator, promoted = np.random.default_rng(9), 0
    for _ in range(1000):
        picks = (generator.random(number) < 0.73)[:, None]
        stakes = np.array(STAKES)
        grown = np.exp(np.cumsum(np.log1p(np.where(picks, stakes, -stakes)), axis=0)).mean(axis=1)
        promoted += bool((grown >= 1 / level).any())
    assert promoted / 1000 == pytest.approx(0.8, abs=0.04)
    assert picks_needed(0.6, level) is None


def test_a_margin_asks_for_fewer_picks():
    assert picks_needed(0.73, 0.0128, 0.45) < picks_needed(0.73, 0.0128)
    assert evidence([1.0, 0.0], 0.45) > evidence([1.0, 0.0])
