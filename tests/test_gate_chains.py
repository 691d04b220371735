"""The simulation of the gate's promise, short: benchmarks/gate.py runs it with thousands of chains."""

import sys
from types import ModuleType

import numpy as np
import pytest
from django.conf import settings

from rl.evaluation.stats.budget import TOTAL, Look

SLACK = 0.05
"""Of 200 chains: three standard errors of a share of 5 %."""


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(settings.BASE_DIR / "benchmarks"))
    import gate

    return gate


@pytest.fixture
def chains(gate: ModuleType) -> ModuleType:
    return sys.modules["gate_chains"]


def test_versions_a_point_worse_are_hardly_ever_promoted_and_ten_points_better_ones_soon(chains: ModuleType):
    rng, evidence = np.random.default_rng(1), chains.RIGHT_ANSWERS
    worse = [chains.run_chain(chains.CHOSEN, evidence, chains.World(-0.01), 200, rng)[0] > 0 for _ in range(200)]
    better = [chains.is_promoted_soon(chains.CHOSEN, evidence, 0.1, 200, 0, rng) for _ in range(200)]
    assert np.mean(worse) <= TOTAL
    assert np.mean(better) >= 0.8 - SLACK


def test_what_is_not_shown_to_the_gate_it_would_not_promote(chains: ModuleType):
    evidence, look = chains.RIGHT_ANSWERS, Look(0.01, 0.01)
    critical = 2.3263
    for counts in evidence.draw(np.full(300, 0.15), 30, np.random.default_rng(2)):
        shown = evidence.z(counts[None])[0] > critical
        assert shown or not chains.promotes(evidence, tuple(map(int, counts)), look)


def test_the_evidence_has_the_quality_and_the_spread_it_is_said_to_have(chains: ModuleType):
    evidence = chains.RIGHT_ANSWERS
    values = np.repeat(evidence.values, evidence.draw(np.full(1, 0.1), 200_000, np.random.default_rng(3))[0])
    assert (values.mean(), values.var()) == pytest.approx((0.1, evidence.variance(0.1)), abs=0.005)
    assert evidence.variance(0.1) == pytest.approx(0.29)


def test_lord_earns_levels_back_by_promoting(chains: ModuleType):
    assert chains.lord(()).sum() < TOTAL / 2
    assert chains.lord((20,))[20] > 10 * chains.lord(())[20]


def test_the_tables_have_a_cell_under_each_heading(gate: ModuleType):
    for title, head, rows in gate.tables(2, np.random.default_rng(4)):
        first = next(iter(rows))
        assert len(first) == len(head), title
    assert gate.share(iter([True] * 8)) == "100.0 % (67.6 to 100.0)"


def test_a_planned_number_is_right_far_more_often_than_a_scaled_one(gate: ModuleType, chains: ModuleType):
    from rl.evaluation.stats.budget import at_look

    row = gate.row_of_numbers(gate.Setting(chains.RIGHT_ANSWERS, 60, at_look(20), 0.05), 40, np.random.default_rng(5))
    planned, scaled = (float(cell.split(" %")[0]) for cell in row[5:7])
    assert planned >= 80 > 40 > scaled
