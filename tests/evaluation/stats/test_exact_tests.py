from __future__ import annotations

import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import permutation_test

from rl.evaluation.stats.intervals import STEPS, PairedCounts, difference_interval, mcnemar, mcnemar_p, sign_flip_p


@pytest.mark.parametrize(
    ("gained", "lost", "p", "mid_p"),
    [
        (7, 1, 0.070, 0.039),  # Fagerland et al. 2013: Bentur et al., airways before and after a transplantation
        (16, 6, 0.052, 0.035),  # the same: Cavo et al., response before and after a therapy
        (5, 5, 1.0, 0.877),  # by hand: 1 - C(10, 5) / 2^11
        (0, 0, 1.0, 1.0),
    ],
)
def test_it_agrees_with_published_values_both_ways(gained, lost, p, mid_p):
    assert mcnemar_p(gained, lost) == pytest.approx((p, mid_p), abs=5e-4)
    assert mcnemar_p(lost, gained) == mcnemar_p(gained, lost)


def test_a_hundred_thousand_prompts_are_no_more_than_a_sum():
    p, mid_p = mcnemar_p(100_000, 101_000)
    assert p == pytest.approx(0.02586, abs=1e-4)  # the normal approximation with its correction: z = 999 / 448.3
    assert 0 < mid_p < p
    assert mcnemar_p(0, 5000)[0] == 0


def test_of_a_prompt_with_several_pairs_only_the_sign_counts():
    test = mcnemar([0.2, 1.0, -0.5, 0.0])
    assert (test.gained, test.lost) == (2, 1)


def test_counts_below_zero_are_refused():
    with pytest.raises(ValueError, match="-1 lost"):
        mcnemar_p(3, -1)


def test_the_interval_that_decides_and_the_mid_p_value_agree_but_at_the_border():
    """On all results of 8 to 60 prompts, every fourth number: fewer than one in a hundred differ, all near 0.05."""
    differ = total = 0
    for n in range(8, 61, 4):
        for gained in range(n + 1):
            for lost in range(n - gained + 1):
                interval = difference_interval(PairedCounts(n, gained, lost))
                _, mid_p = mcnemar_p(gained, lost)
                total += 1
                if (interval.low > 0 or interval.high < 0) != (mid_p < 0.05):
                    differ += 1
                    assert 0.03 < mid_p < 0.075
    assert differ / total < 0.01


@pytest.mark.parametrize(("gained", "lost"), [(8, 0), (12, 2), (40, 20), (250, 200)])
def test_of_right_and_wrong_it_is_mcnemars_exact_test(gained: int, lost: int):
    changes = [1.0] * gained + [-1.0] * lost + [0.0] * 30
    assert sign_flip_p(changes) == pytest.approx(mcnemar_p(gained, lost)[0] / 2)


@given(st.lists(st.integers(-STEPS, STEPS), max_size=9))
def test_it_counts_the_ways_to_turn_the_signs(steps: list[int]):
    changes = [step / STEPS for step in [*steps, STEPS]]
    turned = [
        sum(sign * abs(step) for sign, step in zip(signs, [*steps, STEPS], strict=True))
        for signs in product((-1, 1), repeat=len(changes))
    ]
    assert sign_flip_p(changes) == pytest.approx(np.mean([total >= sum(steps) + STEPS for total in turned]))


def test_it_agrees_with_scipy():
    changes = np.random.default_rng(3).normal(0.3, 1, 14)
    theirs = permutation_test(
        (changes,), np.mean, permutation_type="samples", alternative="greater", n_resamples=np.inf
    )
    assert sign_flip_p(list(changes)) == pytest.approx(theirs.pvalue, rel=0.1)  # steps of a twentieth


@pytest.mark.parametrize("changes", [[], [0.0, 0.0]])
def test_no_change_is_never_better_than_chance(changes: list[float]):
    assert sign_flip_p(changes) == 1


def test_five_hundred_changes_take_moments():
    changes = list(np.random.default_rng(4).uniform(-1, 1, 500))
    before = time.process_time()
    sign_flip_p(changes)
    assert time.process_time() - before < 8
