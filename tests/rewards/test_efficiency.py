from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.base.records import ToolCall
from rl.rewards import EfficiencyReward, RewardEngine
from tests.rewards.records import rated, record


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"tokens_in": 0, "tokens_out": 0}, 1.0),
        ({"tokens_in": 3000, "tokens_out": 1000}, 0.5),
        ({"tokens_out": 8000}, 0.25),
        ({"duration_ms": 60_000}, 0.5),
        ({"tool_calls": (ToolCall("search"),) * 8}, 0.5),
        ({"duration_ms": 0, "tokens_out": 4000}, 0.75),
    ],
)
def test_each_part_halves_with_its_measure(fields, value):
    assert EfficiencyReward().compute(record(**fields)).value == pytest.approx(value)


def test_where_nothing_is_known_it_does_not_apply():
    assert EfficiencyReward().compute(record()).value is None


def test_a_quick_answer_is_no_good_one_for_that():
    assert RewardEngine().compute_combined(record(duration_ms=1)) is None
    assert RewardEngine().compute_combined(rated(0.0, duration_ms=1)) == pytest.approx(0.5 / 3.5, abs=1e-4)


@given(st.integers(0, 2**31), st.integers(0, 2**31))
def test_using_more_never_earns_more(one, other):
    less, more = sorted([one, other])
    values = [EfficiencyReward().compute(record(tokens_out=n, duration_ms=n)).value or 0.0 for n in (less, more)]
    assert 1 >= values[0] >= values[1] >= 0
