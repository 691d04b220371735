from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from rl.models import Agent
from tests.boundary.watching import Watch, watching
from tests.dataset_builder.ratings import rate_prompts


@pytest.fixture
def staff(client: Client, bob: Any) -> Client:
    """Of a superuser: nobody may do more."""
    client.force_login(bob)
    return client


@pytest.fixture
def rated(agent: Agent, data_dir: Path, settings: Any) -> Agent:
    """With ratings to learn from, and any number of requests."""
    settings.API_REQUESTS_PER_MINUTE = 1_000_000
    rate_prompts(agent, 20)
    return agent


@pytest.fixture
def watch(data_dir: Path) -> Iterator[Watch]:
    with watching(data_dir) as watch:
        yield watch
