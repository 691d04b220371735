from __future__ import annotations

from typing import Any

import pytest

from rl.raters.agreement import cohens_kappa, krippendorffs_alpha, left_share, percent_agreement

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
