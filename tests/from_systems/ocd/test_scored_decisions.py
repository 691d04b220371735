"""A reward model of OCD's decisions learns what the formula says of each, not the thumb that is a part of it."""

from __future__ import annotations

import pytest

from rl.collect.traces.write import TraceStore
from rl.dataset_builder import DataOptions, freeze
from rl.from_systems.ocd.records import read_decision
from rl.models import Agent
from rl.scoring import stored as rewarding
from tests.dataset_builder.ratings import all_rows

pytestmark = pytest.mark.django_db


def decide(number: int, **fields) -> None:
    record = {"agentType": "FILER", "id": f"d{number}", "state": number, "action": {"swimlane": "Home"}, **fields}
    TraceStore("test").take([read_decision(record, "line")])


def scores() -> dict[str, float]:
    rewarding.calculate()
    agent = Agent.by_name("FILER")
    rows = all_rows(freeze(agent, DataOptions(min_samples=1, val_split=0), method="reward_model"))
    return {row["prompt"][0]["content"]: row["score"] for row in rows}


def test_the_score_is_the_reward_of_the_decision(data_dir):
    outcomes = {"completedSuccessfully": True, "cycleCount": 0, "totalTimeInCreate": 100}
    decide(1, userFeedback="CONFIRMED", confidence=0.9, outcomeMetrics=outcomes)
    decide(2, userFeedback="CONFIRMED", reward=-3)
    decide(3, userFeedback="IGNORED")
    assert scores() == {"1": pytest.approx((1.64 + 2) / 4), "2": 0.0, "3": 0.5}
