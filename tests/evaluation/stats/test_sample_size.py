import math

import numpy as np
import pytest

from rl.evaluation.stats.intervals import PairedCounts, difference_interval
from rl.evaluation.stats.sample_size import SampleSizePlan, gain_of_prompts, plan, prompts_for_gain


def test_prompts_for_a_gain_are_those_of_a_paired_mean():
    # by hand: (1.95996 + 0.84162)^2 * 0.25 / 0.1^2 + 1.95996^2 / 2 = 198.1
    assert prompts_for_gain(0.25, 0.1, 0.025) == 199
    assert gain_of_prompts(0.25, 199, 0.025) == pytest.approx(0.1, abs=5e-4)
    assert gain_of_prompts(0.25, 1, 0.025) == math.inf


def test_a_plan_is_for_the_largest_gain_that_takes_twice_the_prompts_there_are():
    assert plan(0.25, 60, 0.025) == SampleSizePlan(0.10, 199 - 60)
    assert plan(0.25, 100, 0.025) == SampleSizePlan(0.05, prompts_for_gain(0.25, 0.05, 0.025) - 100)
    assert plan(0.25, 10**7, 0.025) is None
    assert plan(0.25, 60, 0.0025).more > 199 - 60


def test_with_a_margin_a_plan_takes_fewer_prompts():
    assert plan(0.25, 20, 0.025, margin=0.05) == SampleSizePlan(0.10, prompts_for_gain(0.25, 0.15, 0.025) - 20)


@pytest.mark.parametrize("level", [0.025, 0.001])
def test_planned_prompts_find_the_gain_in_four_of_five_comparisons(level: float):
    generator = np.random.default_rng(5)
    prompts = prompts_for_gain(0.3 - 0.1**2, 0.1, level)
    changes = [
        PairedCounts(prompts, *map(float, generator.multinomial(prompts, (0.2, 0.1, 0.7))[:2])) for _ in range(2000)
    ]
    shown = sum(difference_interval(counts, 1 - 2 * level).low > 0 for counts in changes)
    assert shown / 2000 == pytest.approx(0.8, abs=0.03)
