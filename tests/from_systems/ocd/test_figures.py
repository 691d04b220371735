"""The figures that OCD's scripts print before a training."""

from __future__ import annotations

import pytest

from rl.collect.traces.write import TraceStore
from rl.from_systems.ocd.figures import get_training_stats
from rl.from_systems.ocd.records import read_decision
from rl.scoring import stored as rewarding

pytestmark = pytest.mark.django_db


def test_the_figures_of_one_type_have_the_names_of_its_scripts():
    rows = [
        {"reward": 1.5, "userFeedback": "CONFIRMED"},
        {"reward": -3.0, "isValidationData": True},
        {"isTrainingData": False},
        {"agentType": "STORER", "reward": 5},
    ]
    common = {"agentType": "FILER", "action": {"swimlane": "Home"}}
    decisions = [read_decision({**common, "state": number, **row}, "line") for number, row in enumerate(rows)]
    TraceStore("test").take(decisions)
    rewarding.calculate()
    assert get_training_stats("filer") == {
        "total_decisions": 3,
        "decisions_with_reward": 2,
        "decisions_with_feedback": 1,
        "avg_reward": -0.75,
        "min_reward": -3.0,
        "max_reward": 1.5,
        "training_data_count": 2,
        "validation_data_count": 1,
    }


@pytest.mark.database
def test_a_type_without_decisions_has_no_rewards():
    figures = get_training_stats("LIBRARIAN")
    assert (figures["total_decisions"], figures["avg_reward"]) == (0, None)
