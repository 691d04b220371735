from __future__ import annotations

from pathlib import Path

import pytest

from rl.models import Agent


@pytest.fixture
def agent(agent: Agent, tiny_base: Path) -> Agent:
    """With a base model that is there."""
    agent.base_model = str(tiny_base)
    agent.save()
    return agent
