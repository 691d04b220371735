from __future__ import annotations

import math

import pytest

from rl.training.calibration import expected_calibration_error

SURE_OF_80_PERCENT = math.log(4)
"""The margin whose sigmoid is 0.8."""


def test_four_of_five_right_at_80_percent_is_perfect():
    margins = [SURE_OF_80_PERCENT] * 4 + [-SURE_OF_80_PERCENT]
    assert expected_calibration_error(margins) == pytest.approx(0)


def test_always_wrong_at_80_percent_is_off_by_80_points():
    assert expected_calibration_error([-SURE_OF_80_PERCENT] * 3) == pytest.approx(0.8)


def test_each_pair_weighs_the_same_across_bins():
    # three right at 80 %: off by 0.2; one wrong at almost 100 %: off by 1
    assert expected_calibration_error([SURE_OF_80_PERCENT] * 3 + [-1000.0]) == pytest.approx((3 * 0.2 + 1) / 4)


def test_a_model_that_knows_nothing_and_says_so_is_calibrated():
    assert expected_calibration_error([0.0, 0.0]) == 0
    assert expected_calibration_error([]) == 0
