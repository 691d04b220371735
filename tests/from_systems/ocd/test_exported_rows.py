"""OCD's rows, with its raw rewards."""

import pytest

from rl.base.errors import UsageError
from rl.collect.traces.write import TraceStore
from rl.from_systems.ocd.records import read_decision
from rl.models import Agent
from rl.scoring import stored as rewarding
from tests.conftest import make_trace
from tests.dataset_builder.exporting.exports import exported


@pytest.fixture
def filer(db) -> Agent:
    return Agent.objects.create(name="FILER")


def decide(agent: Agent, **more) -> None:
    record = read_decision(
        {"agentType": agent.name, "state": {"item": "tax"}, "action": {"swimlane": "Home"}, "confidence": 0.8, **more},
        "line 1",
    )
    TraceStore("test").take([record])


@pytest.mark.database
def test_decisions_are_rows_as_their_own_system_writes_them(filer, tmp_path):
    decide(filer, id="d1", itemId="i1", opusId="o1", userFeedback="CONFIRMED", createdAt="2026-02-01T12:00:00Z")
    rewarding.calculate(filer)
    [row] = exported(filer, "decision", tmp_path)
    components = row["metadata"].pop("rewardComponents")
    assert components["immediate"] == {"userFeedback": 1.0, "confidenceCalibration": pytest.approx(-0.2)}
    assert row.pop("reward") == pytest.approx(1.0 - 0.1 * 0.2)
    assert row == {
        "prompt": '{"item": "tax"}',
        "completion": '{"swimlane": "Home"}',
        "confidence": 0.8,
        "metadata": {
            "decisionId": "d1",
            "itemId": "i1",
            "opusId": "o1",
            "userFeedback": "CONFIRMED",
            "createdAt": "2026-02-01T12:00:00+00:00",
        },
    }


def test_a_reward_that_came_with_a_decision_goes_out_as_it_came(filer, tmp_path):
    decide(filer, id="d1", reward=-1.5, rewardComponents={"userFeedback": -0.5})
    decide(filer, id="d2")
    make_trace(filer, "No decision?")
    rewarding.calculate(filer)
    [row] = exported(filer, "decision", tmp_path)
    assert (row["reward"], row["metadata"]["rewardComponents"]) == (-1.5, {"userFeedback": -0.5})
    assert exported(filer, "decision", tmp_path, min_reward=-2) == [row]
    with pytest.raises(Exception, match="1 reward below the least one asked for"):
        exported(filer, "decision", tmp_path, min_reward=0.5)


@pytest.mark.parametrize("least", [-5.5, 6])
def test_the_least_reward_is_one_that_a_decision_can_have(filer, tmp_path, least: float):
    with pytest.raises(UsageError, match="min_reward must be from -5 to 5"):
        exported(filer, "decision", tmp_path, min_reward=least)


def test_a_decision_that_is_not_for_training_is_in_no_row(filer, tmp_path):
    decide(filer, id="d1", userFeedback="CONFIRMED", state={"item": "a"})
    decide(filer, id="d2", userFeedback="CONFIRMED", state={"item": "b"}, isTrainingData=False)
    rewarding.calculate(filer)
    assert [row["metadata"]["decisionId"] for row in exported(filer, "decision", tmp_path)] == ["d1"]


def test_a_decision_for_validation_is_held_out(filer, tmp_path):
    for number in range(4):
        decide(filer, id=f"d{number}", userFeedback="CONFIRMED", state={"item": number}, isValidationData=number == 2)
    rewarding.calculate(filer)
    rows = exported(filer, "decision", tmp_path, split="heldout", val_split=0.0)
    assert [row["metadata"]["decisionId"] for row in rows] == ["d2"]
