from __future__ import annotations

import pytest
from django.core.cache import cache

from rl.models import Agent, Trace
from rl.web.api.auth import forget
from tests.from_systems.command_center.pages import PAGE, Page
from tests.web.api.conftest import entry_of


@pytest.fixture(autouse=True)
def _nothing_counted_or_known_yet():
    cache.clear()
    forget()


@pytest.fixture
def page(settings, db) -> Page:
    """From an origin that is switched on."""
    settings.COMMAND_CENTER_ORIGINS = {PAGE: ""}
    return Page()


@pytest.fixture
def entry(agent: Agent) -> Trace:
    return entry_of(agent, "e00001")
