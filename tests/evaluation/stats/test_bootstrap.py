from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.stats import bootstrap

from rl.evaluation.stats.intervals import bootstrap_interval, counts_of, difference_interval

YES_OR_NO = [1.0] * 12 + [-1.0] * 2 + [0.0] * 16
SHARES = [1 / 3, 2 / 3, 0.5, 0.0, 1.0, 1.0, -1.0, 0.25] * 4


@pytest.mark.parametrize("changes", [YES_OR_NO, SHARES])
def test_it_agrees_with_the_bca_interval_of_scipy(changes):
    theirs = bootstrap(
        (np.array(changes),), np.mean, method="BCa", n_resamples=9999, rng=np.random.default_rng(0)
    ).confidence_interval
    ours = bootstrap_interval(changes, resamples=9999)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.02)
    assert ours.value == pytest.approx(np.mean(changes))


def test_the_same_changes_give_the_same_interval_and_it_turns_with_the_sign():
    first, again = bootstrap_interval(SHARES), bootstrap_interval(SHARES)
    turned = bootstrap_interval([-change for change in SHARES])
    assert first == again
    assert (turned.low, turned.high) == pytest.approx((-first.high, -first.low), abs=0.05)


def test_with_many_prompts_it_is_the_interval_that_decides():
    changes = [1.0] * 150 + [-1.0] * 80 + [0.0] * 270
    ours, decides = bootstrap_interval(changes), difference_interval(counts_of(changes))
    assert (ours.low, ours.high) == pytest.approx((decides.low, decides.high), abs=0.01)


@pytest.mark.parametrize("changes", [[], [1.0], [1.0, math.nan]])
def test_too_little_has_no_interval(changes):
    assert bootstrap_interval(changes) is None


def test_equal_changes_are_a_point():
    interval = bootstrap_interval([0.5] * 9)
    assert (interval.low, interval.value, interval.high) == (0.5, 0.5, 0.5)


def test_two_thousand_resamples_of_five_hundred_prompts_take_moments():
    before = time.process_time()
    bootstrap_interval(YES_OR_NO * 17)
    assert time.process_time() - before < 8
