"""How much each of several raters may weigh."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.raters.shares import limit


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
