"""The tool ``search`` over the web, by a provider of search results or an endpoint of your own. No Django, no torch."""

from __future__ import annotations

from rl.environments.tools.web_search.backend import SEARCH_BACKENDS
from rl.environments.tools.web_search.settings import SearchSettings
from rl.environments.tools.web_search.tool import WebSearch, search_tool

__all__ = ["SEARCH_BACKENDS", "SearchSettings", "WebSearch", "search_tool"]
