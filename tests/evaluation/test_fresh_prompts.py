"""Prompts that versions answer afresh."""

import pytest

from rl.evaluation.preferring import prompts_asked
from rl.models import Agent
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
TOOL = {"type": "function", "function": {"name": "track", "description": "", "parameters": {"type": "object"}}}


def test_they_offer_the_tools_that_the_agent_was_offered(agent: Agent):
    make_trace(agent, "Where is 4711?", details={"tools": [TOOL]}, tool_calls=[{"tool_name": "track", "arguments": {}}])
    make_trace(agent, "Thank you!")
    asked = prompts_asked(agent, 1.0, [], 10)
    assert [(row["prompt"][-1]["content"], row["tools"]) for row in asked] == [
        ("Thank you!", [TOOL]),
        ("Where is 4711?", [TOOL]),
    ]


@pytest.mark.database
def test_without_tools_none_are_offered(agent: Agent):
    make_trace(agent, "Thank you!")
    assert "tools" not in prompts_asked(agent, 1.0, [], 10)[0]
