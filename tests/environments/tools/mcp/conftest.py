import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rl.environments.tools import ToolRegistry
from rl.environments.tools.mcp.settings import servers_of
from rl.environments.tools.mcp.tool import close_connections, mcp_tools

HERE = Path(__file__).parent
SERVER = [sys.executable, str(HERE / "server.py")]


@pytest.fixture(scope="session", autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_connections()


@pytest.fixture
def make_tools() -> Callable[..., ToolRegistry]:
    """Of one server; those of the same settings share it, in all tests."""

    def make(name: str = "shop", **settings: Any) -> ToolRegistry:
        values = settings if "url" in settings else {"command": SERVER, **settings}
        return ToolRegistry(mcp_tools(servers_of({name: values})))

    return make


@pytest.fixture
def shop(make_tools: Callable[..., ToolRegistry]) -> ToolRegistry:
    return make_tools(timeout=1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that do not go are killed sooner."""
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 0.1)
    monkeypatch.setattr("mcp.client.stdio.FORCE_KILL_TIMEOUT", 0.1)


def quick(*tools: dict[str, Any], endless: bool = False) -> list[str]:
    """Command of a server with these tools that is ready at once."""
    return [sys.executable, "-S", str(HERE / "quick.py"), json.dumps(tools), *(["forever"] if endless else [])]
