from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rl.environments.tools.registry import BaseTool
from rl.environments.tools.web_search import tool
from rl.environments.tools.web_search.settings import SearchSettings
from rl.environments.tools.web_search.tool import search_tool
from tests.environments.tools.web_search.search_double import KEY, SearchDouble, search_double


@pytest.fixture
def double() -> Iterator[SearchDouble]:
    with search_double() as running:
        yield running


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited for, but not really."""
    waited: list[float] = []
    monkeypatch.setattr(tool, "pause", lambda seconds: waited.append(seconds) if seconds else None)
    return waited


@pytest.fixture
def make_tool(
    double: SearchDouble, tmp_path: Path, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., BaseTool]:
    """A web search that asks the double as ``provider``."""
    for name in ("TAVILY_API_KEY", "SERPER_API_KEY", "BING_API_KEY"):
        monkeypatch.setenv(name, KEY)

    def make(provider: str = "tavily", **settings: Any) -> BaseTool:
        values = {"mode": "web", "provider": provider, "endpoint": f"{double.url}/{provider}", **settings}
        return search_tool(SearchSettings.of(values), tmp_path / "searches")

    return make
