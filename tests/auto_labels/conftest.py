from pathlib import Path

import pytest

from rl import auto_labels
from rl.models import Agent
from tests.auto_labels.labelled import make_labelled


@pytest.fixture
def agent(agent: Agent, tiny_base: Path) -> Agent:
    """With a base model that is there."""
    agent.base_model = str(tiny_base)
    agent.save()
    return agent


@pytest.fixture
def learned(agent: Agent) -> auto_labels.Learned:
    make_labelled(agent, 100)
    return auto_labels.learn(agent)
