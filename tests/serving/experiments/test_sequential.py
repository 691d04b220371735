import math
import random
from statistics import NormalDist

import pytest

from rl.serving.experiments.sequential import (
    Estimate,
    half_width,
    interval,
    needed_variance,
    p_value,
    predicted_sample,
    spread_for,
)

ALPHA = 0.05


def test_the_half_width_is_that_of_the_formula():
    variance, spread = 0.002, 0.1
    expected = math.sqrt(
        2 * variance * (variance + 0.01) / 0.01 * math.log(math.sqrt((variance + 0.01) / variance) / ALPHA)
    )
    assert half_width(variance, spread, ALPHA) == pytest.approx(expected)


@pytest.mark.parametrize("value", [-0.3, -0.1, 0.0, 0.05, 0.13, 0.14, 0.4])
@pytest.mark.parametrize("variance", [0.0001, 0.002, 0.1])
def test_the_p_value_is_small_exactly_when_the_interval_excludes_zero(value: float, variance: float):
    estimate = Estimate(value, variance)
    found = interval(estimate, 0.1, ALPHA)
    assert (p_value(estimate, 0.1) <= ALPHA) == (found.low > 0 or found.high < 0)


def test_it_is_wider_than_an_interval_that_is_looked_at_once():
    fixed = NormalDist().inv_cdf(0.975) * math.sqrt(0.001)
    assert 1.3 * fixed < half_width(0.001, 0.1, ALPHA) < 1.8 * fixed


def test_more_data_and_less_confidence_make_it_narrower():
    assert half_width(0.001, 0.1, 0.05) < half_width(0.002, 0.1, 0.05)
    assert half_width(0.001, 0.1, 0.1) < half_width(0.001, 0.1, 0.05) < half_width(0.001, 0.1, 0.01)


def test_the_spread_that_is_best_for_a_variance_is_the_best():
    best = spread_for(0.001, ALPHA)
    widths = [half_width(0.001, best * factor, ALPHA) for factor in (0.8, 1.0, 1.25)]
    assert min(widths) == widths[1]


def test_an_effect_is_found_at_the_needed_variance_with_the_power():
    variance = needed_variance(0.1, ALPHA, power=0.8)
    reach = 0.1 - half_width(variance, 0.1, ALPHA)  # the estimate may be this much below the truth
    assert NormalDist().cdf(reach / math.sqrt(variance)) == pytest.approx(0.8, abs=0.001)


def test_the_predicted_sample_grows_as_effects_get_smaller_and_challengers_more():
    thumbs = predicted_sample(0.1, 0.25, 0.95)
    assert thumbs == pytest.approx(765, abs=10)
    assert predicted_sample(0.05, 0.25, 0.95) == pytest.approx(4 * thumbs, abs=4)
    assert predicted_sample(0.1, 0.25, 0.95, challengers=2) > thumbs
    assert predicted_sample(0.1, 0.25, 0.95, power=0.9) > thumbs


def test_looking_after_every_user_is_wrong_no_more_often_than_stated():
    rng = random.Random(4)
    wrong = sum(_ever_excludes_the_truth(rng) for _ in range(400))
    assert wrong / 400 <= ALPHA + 0.02


def _ever_excludes_the_truth(rng: random.Random, n: int = 400) -> bool:
    """Normal observations of known variance, for which the guarantee is exact."""
    total = 0.0
    for number in range(1, n + 1):
        total += rng.gauss(0, 1)
        if p_value(Estimate(total / number, 1 / number), 0.3) <= ALPHA:
            return True
    return False
