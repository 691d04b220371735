import math

import pytest

from rl.base.measurements import PairScore
from rl.training.calibration import (
    brier_score,
    calibration,
    expected_calibration_error,
    score_calibration_error,
)

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


def test_scores_that_are_met_on_average_are_calibrated():
    # in one bin, 0.1 too high and 0.1 too low make up for each other; in two bins they do not
    assert score_calibration_error([0.75, 0.75], [0.65, 0.85]) == pytest.approx(0)
    assert score_calibration_error([0.75, 0.15], [0.65, 0.25]) == pytest.approx(0.1)
    assert score_calibration_error([1.0, 0.0], [1.0, 0.0]) == 0


def test_a_brier_score_is_the_mean_squared_difference():
    assert brier_score([1.0, 0.5], [0.5, 0.5]) == 0.125


def test_pairs_and_scored_answers_are_measured_apart():
    # sigmoid(log 4) = 0.8 for a score of 0.9, sigmoid(0) = 0.5 for a score of 0.3
    contrasts = [{"scores": [0.9, 0.3]}, {}]
    numbers = [PairScore("a", SURE_OF_80_PERCENT, 0.0), PairScore("b", 0.0, SURE_OF_80_PERCENT)]
    assert calibration(contrasts, numbers) == pytest.approx(
        {
            "calibration_error": 0.8,
            "scored_answers": 2,
            "score_calibration_error": 0.15,
            "brier_score": (0.01 + 0.04) / 2,
            "brier_score_of_mean": 0.09,
        }
    )
    assert calibration(contrasts[1:], numbers[1:]).keys() == {"calibration_error"}
    assert "calibration_error" not in calibration(contrasts[:1], numbers[:1])
