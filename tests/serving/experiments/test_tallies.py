import random
from statistics import fmean, pvariance

import pytest

from rl.serving.experiments.sequential import MetricTally, Sample

CONTROL, CHALLENGER = 1, 2


def filled(control: list[float], challenger: list[float], **settings) -> MetricTally:
    tally = MetricTally(**settings)
    for arm, values in ((CONTROL, control), (CHALLENGER, challenger)):
        for number, value in enumerate(values):
            tally.add(arm, number, value)
    return tally


def test_a_running_sample_knows_mean_and_variance_after_replacements():
    rng = random.Random(1)
    values = [rng.random() * 5 + 1000 for _ in range(200)]
    sample = Sample()
    for value in values:
        sample.add(value)
    for number in range(0, 200, 3):
        new = rng.random()
        sample.replace(values[number], new)
        values[number] = new
    assert sample.mean == pytest.approx(fmean(values))
    assert sample.squares / sample.n == pytest.approx(pvariance(values))


def test_one_observation_at_each_end_of_the_range_is_added_to_the_variance():
    sample = Sample()
    for _ in range(10):
        sample.add(1.0)
    assert sample.variance(0.0, 1.0) == pytest.approx(pvariance([1.0] * 11 + [0.0]))


def test_a_user_counts_once_with_the_mean_of_what_he_said():
    tally = MetricTally()
    assert tally.add(CONTROL, "anna", 1.0)
    assert not tally.add(CONTROL, "anna", 0.0)
    assert not tally.add(CONTROL, "anna", 0.5)
    assert tally.add(CONTROL, "ben", 1.0)
    assert tally.n(CONTROL) == 2
    assert tally.mean(CONTROL).value == pytest.approx(0.75)


def test_a_user_on_two_arms_counts_on_each():
    tally = MetricTally()
    tally.add(CONTROL, "anna", 0.0)
    assert tally.add(CHALLENGER, "anna", 1.0)
    assert (tally.n(CONTROL), tally.n(CHALLENGER)) == (1, 1)


def test_without_a_ramp_the_difference_is_that_of_the_means():
    tally = filled([0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0])
    assert tally.difference(CONTROL, CHALLENGER).value == pytest.approx(2 / 3 - 1 / 2)


def test_a_small_arm_is_not_taken_to_vary_less_than_both_together():
    tally = filled([0.0, 1.0] * 100, [0.0] * 20)
    assert tally.variance(CHALLENGER) < 0.08 < tally.variance(CHALLENGER, CONTROL)
    assert tally.variance(CONTROL, CHALLENGER) == tally.variance(CONTROL)


def test_steps_of_a_ramp_are_compared_within_themselves():
    """The mood gets better when the challenger gets its larger share; both arms are equal in both steps."""
    tally, user = MetricTally(), 0
    for step, control, challenger, rate in ((0, 90, 10, 0.2), (1, 50, 50, 0.8)):
        for arm, n in ((CONTROL, control), (CHALLENGER, challenger)):
            for number in range(n):
                tally.add(arm, user := user + 1, float(number < n * rate), step)
    pooled = tally.mean(CHALLENGER).value - tally.mean(CONTROL).value
    assert pooled > 0.2
    assert tally.difference(CONTROL, CHALLENGER).value == pytest.approx(0.0, abs=1e-9)


def test_a_user_stays_in_the_step_that_he_came_in():
    tally = MetricTally()
    tally.add(CONTROL, "anna", 0.0, 0)
    tally.add(CHALLENGER, "ben", 1.0, 0)
    tally.add(CONTROL, "anna", 1.0, 1)
    assert tally.difference(CONTROL, CHALLENGER).value == pytest.approx(0.5)


def test_there_is_no_difference_while_a_step_has_one_side_only():
    tally = MetricTally()
    tally.add(CONTROL, "anna", 0.0, 0)
    assert tally.difference(CONTROL, CHALLENGER) is None
    tally.add(CHALLENGER, "ben", 1.0, 1)
    assert tally.difference(CONTROL, CHALLENGER) is None


def test_counts_are_ones_and_zeros():
    counted = MetricTally()
    counted.count(CONTROL, 200, 10)
    counted.count(CHALLENGER, 0, 0)
    same = filled([1.0] * 10 + [0.0] * 190, [])
    expected = same.mean(CONTROL)
    assert counted.mean(CONTROL).value == pytest.approx(expected.value)
    assert counted.mean(CONTROL).variance == pytest.approx(expected.variance)
    assert counted.mean(CHALLENGER) is None


@pytest.mark.parametrize("value", [0.0, 5.0, -3e6])
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_outcomes_that_are_all_the_same_have_an_interval_that_is_no_point(value: float, margin: float):
    tally = filled([value] * 5, [value] * 5, limits=None, margin=margin)
    found = tally.difference(CONTROL, CHALLENGER)
    assert found.value == 0
    assert found.variance > 0


def test_the_range_of_outcomes_is_what_was_seen():
    tally = filled([0.0, 0.0, 40.0], [0.0], limits=None, margin=1.0)
    assert tally.variance(CHALLENGER) == pytest.approx(pvariance([0.0, 0.0, 40.0]))
    assert not tally.is_unknown()
    assert MetricTally(None, 1.0).is_unknown()
