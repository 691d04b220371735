from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.raters.agreement import cohens_kappa, krippendorffs_alpha, left_share, limit, percent_agreement

FOUR_OBSERVERS = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""
"""Krippendorff (2011), example C: values are missing, and the last item has one."""
BEN_AND_GERRY = """
a a b b d c c c e d d a
b a b b b c c c e d d d
"""
"""The same paper's example B."""
METER_AND_OWEN = """
0 1 0 0 0 0 0 0 1 0
1 1 1 0 0 1 0 0 0 0
"""
"""And its example A."""


def items(table: str, kind: type = str) -> list[dict[str, Any]]:
    rows = [line.split() for line in table.split("\n") if line]
    return [
        {f"rater {number}": kind(value) for number, value in enumerate(column) if value != "."}
        for column in zip(*rows, strict=True)
    ]


def test_alpha_is_that_of_the_published_examples():
    assert krippendorffs_alpha(items(METER_AND_OWEN)) == pytest.approx(0.095, abs=5e-4)
    assert krippendorffs_alpha(items(BEN_AND_GERRY)) == pytest.approx(0.692, abs=5e-4)
    four = items(FOUR_OBSERVERS, int)
    assert krippendorffs_alpha(four) == pytest.approx(0.743, abs=5e-4)
    assert krippendorffs_alpha(four, "ordinal") == pytest.approx(0.815, abs=5e-4)
    assert krippendorffs_alpha(four, "interval") == pytest.approx(0.849, abs=5e-4)


def test_alpha_says_nothing_where_nothing_can_be_told():
    assert krippendorffs_alpha([]) is None
    assert krippendorffs_alpha([{"a": 1}, {"b": 0}]) is None
    assert krippendorffs_alpha([{"a": 1, "b": 1}]) is None


def test_raters_who_contradict_each_other_are_below_chance():
    alpha = krippendorffs_alpha([{"a": number % 2, "b": 1 - number % 2} for number in range(10)])
    assert alpha is not None
    assert alpha < -0.8


def test_kappa_is_that_of_the_usual_example():
    """Fifty proposals, read by two: both say yes 20 times, both no 15 times."""
    pairs = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15
    assert cohens_kappa(pairs) == pytest.approx(0.4)
    assert cohens_kappa([]) is None
    assert cohens_kappa([(1, 1)] * 3) is None


def test_percent_agreement_counts_pairs_of_ratings():
    assert percent_agreement([{"a": 1, "b": 1, "c": 0}, {"a": 0, "b": 0}, {"c": 1}]) == pytest.approx(2 / 4)
    assert percent_agreement([{"a": 1}]) is None


def test_the_bias_to_the_left_has_an_interval_and_ties_do_not_count():
    share = left_share(["left"] * 15 + ["right"] * 5 + ["tie"] * 9)
    assert share is not None
    assert (share.value, round(share.low, 3), round(share.high, 3)) == (0.75, 0.531, 0.888)
    assert left_share(["tie", "both_bad"]) is None


@pytest.mark.parametrize(
    ("weights", "cap", "others", "bound"),
    [
        ([60, 40], 0.5, 0, 40),
        ([60, 40], 0.6, 0, None),
        ([60, 40], 0.5, 20, None),
        ([90, 5, 6], 0.4, 0, Fraction(22, 3)),
        ([90, 80, 3], 0.4, 0, 6),
        ([9, 5, 3], 0.1, 0, 3),
        ([5], 0.1, 0, None),
        ([], 0.5, 7, None),
        ([60, 0], 0.5, 2, 2),
    ],
)
def test_examples(weights, cap, others, bound):
    assert limit(weights, cap, others) == bound


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=8), st.integers(5, 100), st.integers(0, 500))
def test_nobody_has_more_than_the_cap_and_nobody_gives_up_more_than_needed(weights, percent, others):
    cap = max(Fraction(percent, 100), Fraction(1, len(weights)))
    bound = limit(weights, percent / 100, others)
    kept = [weight if bound is None else min(weight, bound) for weight in weights]
    assert max(kept) <= cap * (others + sum(kept))
    whole = [int(weight) for weight in kept]
    assert max(whole) <= cap * (others + sum(whole))
    if bound is not None:
        assert bound == cap * (others + sum(kept))
