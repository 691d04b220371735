"""A new agent with the name of a type has the lengths of the type."""

import pytest

from rl.collect.traces.write import TraceStore
from rl.from_systems.ocd.records import read_decision
from rl.models import Agent


@pytest.mark.parametrize(
    ("name", "lengths"), [("filer", (640, 128)), ("PRIORITIZER", (1280, 256)), ("support", (1024, 256))]
)
def test_a_new_agent_has_the_lengths_of_its_type(name: str, lengths: tuple[int, int]):
    agent = Agent.new(name)
    assert (agent.context_length, agent.response_length) == lengths
    assert Agent.new(name, response_length=9).response_length == 9


@pytest.mark.django_db
def test_an_imported_decision_makes_an_agent_whose_answers_are_as_long_as_its_type_says():
    TraceStore("test").take(
        [read_decision({"agentType": "FILER", "state": 1, "action": {"swimlane": "Home"}}, "line 1")]
    )
    config = Agent.by_name("FILER").training_config("ppo")
    assert (config.max_length, config.max_new_tokens) == (640, 128)
