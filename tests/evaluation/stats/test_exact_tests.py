import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, permutation_test

from rl.evaluation.stats.intervals import STEPS, sign_flip_p


@pytest.mark.parametrize(("gained", "lost"), [(8, 0), (12, 2), (40, 20), (250, 200)])
def test_of_right_and_wrong_it_is_mcnemars_exact_test(gained: int, lost: int):
    changes = [1.0] * gained + [-1.0] * lost + [0.0] * 30
    assert sign_flip_p(changes) == pytest.approx(binomtest(gained, gained + lost, alternative="greater").pvalue)


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
