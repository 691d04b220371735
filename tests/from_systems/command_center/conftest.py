import pytest

from rl.models import Agent, Trace
from tests.from_systems.command_center.pages import PAGE, Page
from tests.web.api.conftest import entry_of


@pytest.fixture
def page(settings, db) -> Page:
    """From an origin that is switched on."""
    settings.COMMAND_CENTER_ORIGINS = {PAGE: ""}
    return Page()


@pytest.fixture
def entry(agent: Agent) -> Trace:
    return entry_of(agent, "e00001")
