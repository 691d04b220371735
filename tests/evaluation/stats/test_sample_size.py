from __future__ import annotations

import math

from rl.evaluation.stats.intervals import PairedCounts, difference_interval
from rl.evaluation.stats.sample_size import (
    needed_prompts,
    prompts_for_power,
    prompts_for_power_of_counts,
    prompts_for_power_of_means,
)


def test_connors_formula_agrees_with_a_published_value():
    # powerandsamplesize.com after Connor 1987: one-sided 0.05, power 0.9
    assert prompts_for_power(0.45, 0.05, confidence=0.90, power=0.9) == 23


def test_it_does_not_depend_on_which_model_is_better():
    assert prompts_for_power(0.1, 0.2) == prompts_for_power(0.2, 0.1) == 234


def test_with_a_margin_equal_models_have_a_number_too():
    # by hand: ((1.95996 + 0.84162) / 0.05)^2 * 0.2 = 627.9
    assert prompts_for_power(0.1, 0.1, margin=0.05) == 628
    assert prompts_for_power(0.1, 0.1) is None
    assert prompts_for_power(0.1, 0.15, margin=0.05) is None


def test_a_few_equal_prompts_still_need_more():
    assert prompts_for_power_of_counts(PairedCounts(8, 0, 0), margin=0.02) > 1000
    assert prompts_for_power_of_counts(PairedCounts(0, 0, 0)) is None


def test_of_means_it_is_that_of_a_paired_mean():
    # by hand: standard deviation 1.0328, ((1.95996 + 0.84162) * 1.0328 / 0.5)^2 = 33.49
    changes = [1.5, -0.5] * 8
    assert prompts_for_power_of_means(changes) == 34
    assert prompts_for_power_of_means(changes, margin=0.5) == 9
    assert prompts_for_power_of_means([0.5]) is None
    assert prompts_for_power_of_means([0.5, math.nan]) is None
    assert prompts_for_power_of_means([1.0, -1.0]) is None


def test_needed_prompts_with_a_margin_are_the_fewest_that_settle_it():
    counts = PairedCounts(20, 2, 2)
    needed = needed_prompts(counts, margin=0.05)

    def low(prompts: int) -> float:
        return difference_interval(PairedCounts(prompts, prompts * 0.1, prompts * 0.1)).low

    assert low(needed) > -0.05 >= low(needed - 1)
    assert needed_prompts(PairedCounts(20, 1, 2), margin=0.05) is None
