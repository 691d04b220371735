import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.base.measurements import Interval, PairScore, wilson
from rl.evaluation.stats.intervals import (
    PairedCounts,
    counts_of,
    difference_interval,
    mean_interval,
    prompt_accuracy,
    prompt_changes,
    student_t,
)


def scores(*prompts: str) -> list[PairScore]:
    """One string a prompt, one letter a pair: R right, W wrong, T tied."""
    chosen = {"R": 1.0, "W": -1.0, "T": 0.0}
    return [PairScore(f"p{i}", chosen[letter], 0.0) for i, letters in enumerate(prompts) for letter in letters]


def assert_interval(interval: Interval, value: float, low: float, high: float) -> None:
    assert (interval.value, interval.low, interval.high) == pytest.approx((value, low, high), abs=5e-4)


def test_wilson_agrees_with_published_values():
    assert_interval(wilson(81, 263), 0.3080, 0.2553, 0.3662)  # Newcombe 1998, table I, method 3
    assert_interval(wilson(15, 148), 0.1014, 0.0624, 0.1605)
    assert_interval(wilson(0, 20), 0.0, 0.0, 0.1611)
    assert_interval(wilson(1, 29), 0.0345, 0.0061, 0.1718)


def test_wilson_never_leaves_zero_to_one():
    assert wilson(10, 10).high == 1
    assert wilson(10, 10).low == pytest.approx(10 / (10 + 1.959964**2), abs=1e-4)
    assert wilson(0, 1).low == 0


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (3, 2), (-1, 5)])
def test_wilson_refuses_impossible_counts(successes, n):
    with pytest.raises(ValueError, match="successes in"):
        wilson(successes, n)


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95])
def test_a_confidence_outside_zero_to_one_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence"):
        wilson(1, 2, confidence)


@given(st.integers(1, 10_000), st.floats(0, 1), st.floats(0.5, 0.999))
def test_wilson_holds_its_own_value(n, share, confidence):
    interval = wilson(share * n, n, confidence)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1


def test_prompts_and_not_pairs_are_the_units_of_accuracy():
    many_pairs_of_one_prompt = prompt_accuracy(scores("R" * 50, "W"))
    assert_interval(many_pairs_of_one_prompt, 0.5, *[getattr(wilson(1, 2), side) for side in ("low", "high")])
    assert prompt_accuracy(scores("RW", "RRRW")).value == pytest.approx(0.625)
    assert prompt_accuracy(scores("T")).value == 0.5


def test_the_order_of_the_pairs_does_not_matter():
    given_scores = scores("RW", "RRW", "W")
    assert prompt_accuracy(given_scores) == prompt_accuracy(given_scores[::-1])


def test_no_scores_have_no_accuracy():
    with pytest.raises(ValueError, match="0 trials"):
        prompt_accuracy([])


@pytest.mark.parametrize(
    ("degrees", "value"),
    [
        (1, 12.7062),
        (2, 4.30265),
        (3, 3.18245),
        (4, 2.77645),
        (9, 2.26216),
        (10, 2.22814),
        (30, 2.04227),
        (120, 1.97993),
        (1000, 1.96234),
    ],
)
def test_student_t_agrees_with_the_tables(degrees, value):
    assert student_t(degrees) == pytest.approx(value, abs=1e-5)


def test_student_t_at_other_confidences():
    assert student_t(5, 0.9) == pytest.approx(2.01505, abs=1e-5)
    assert student_t(5, 0.99) == pytest.approx(4.03214, abs=1e-5)
    assert student_t(200, 0.99) == pytest.approx(student_t(201, 0.99), abs=1e-3)


def test_the_mean_of_prompts_has_students_interval():
    interval = mean_interval({"a": [1.0], "b": [2.0, 4.0], "c": [5.0]})  # means 1, 3, 5: s = 2, t = 4.303
    assert interval is not None
    assert_interval(interval, 3.0, 3 - 4.302653 * 2 / math.sqrt(3), 3 + 4.302653 * 2 / math.sqrt(3))


@pytest.mark.parametrize(
    "values",
    [{}, {"a": [1.0]}, {"a": [1.0], "b": []}, {"a": [1.0], "b": [math.nan]}, {"a": [-math.inf], "b": [1.0]}],
)
def test_a_mean_without_an_interval_is_none(values):
    assert mean_interval(values) is None


def test_the_paired_interval_agrees_with_the_formula_worked_by_hand():
    # 24 prompts, 9 gained, 1 lost: p12 = 10/26, p21 = 2/26, difference 8/26, variance (12/26 - (8/26)^2) / 26.
    interval = difference_interval(PairedCounts(24, 9, 1))
    half = 1.959964 * math.sqrt((12 / 26 - (8 / 26) ** 2) / 26)
    assert_interval(interval, 8 / 24, 8 / 26 - half, 8 / 26 + half)


def test_two_models_that_agree_everywhere_are_not_proven_equal():
    interval = difference_interval(counts_of(prompt_changes(scores(*["R"] * 10), scores(*["R"] * 10))))
    assert interval.value == 0
    assert interval.low == pytest.approx(-interval.high)
    assert interval.high > 0.2


def test_pairs_of_one_prompt_count_as_one_change():
    counts = counts_of(prompt_changes(scores("RRRR", "RW", "W"), scores("WWWW", "WR", "R")))
    assert counts == PairedCounts(prompts=3, gained=1.0, lost=1.0)


def test_nothing_measured_is_nothing_known():
    assert difference_interval(counts_of(prompt_changes([], []))) == Interval(0.0, -1.0, 1.0)


@pytest.mark.parametrize("other", [[], scores("R"), scores("R", "R")[::-1]])
def test_scores_of_different_pairs_are_refused(other):
    with pytest.raises(ValueError, match="same pairs in the same order"):
        prompt_changes(scores("R", "R"), other)


@given(st.integers(1, 500), st.floats(0, 1), st.floats(0, 1))
def test_the_paired_interval_holds_its_own_value_and_turns_with_the_sign(n, share, direction):
    gained, lost = n * share * direction, n * share * (1 - direction)
    interval, turned = (
        difference_interval(PairedCounts(n, gained, lost)),
        difference_interval(PairedCounts(n, lost, gained)),
    )
    assert -1 <= interval.low <= interval.value <= interval.high <= 1
    assert (turned.low, turned.high) == pytest.approx((-interval.high, -interval.low))


def share_covered(prompts: int, gain: float, loss: float, pairs: int, rounds: int = 2000) -> float:
    """How often the interval holds the true difference; the pairs of a prompt change together."""
    rng = random.Random(prompts * 1000 + pairs)
    hits = 0
    for _ in range(rounds):
        gained = lost = 0.0
        for _ in range(prompts):
            change, part = rng.random(), rng.randint(1, pairs) / pairs
            gained += part if change < gain else 0
            lost += part if gain <= change < gain + loss else 0
        interval = difference_interval(PairedCounts(prompts, gained, lost))
        hits += interval.low <= (gain - loss) * (pairs + 1) / (2 * pairs) <= interval.high
    return hits / rounds


@pytest.mark.parametrize("prompts", [5, 10, 20, 50, 200])
@pytest.mark.parametrize(("gain", "loss"), [(0.0, 0.0), (0.1, 0.1), (0.3, 0.1), (0.05, 0.0), (0.6, 0.3)])
def test_the_interval_covers_the_truth_as_often_as_it_says(prompts, gain, loss):
    assert share_covered(prompts, gain, loss, pairs=1, rounds=1000) >= 0.93
    assert share_covered(prompts, gain, loss, pairs=3, rounds=1000) >= 0.93
