"""https://docs.tavily.com/documentation/api-reference/endpoint/search"""

from __future__ import annotations

from typing import Any

from rl.environments.tools.web_search.backend import SearchBackend, SearchResult, list_in, read_results


def _results(document: Any) -> list[SearchResult]:
    """``answer`` is there when ``include_answer`` is asked for."""
    return read_results(document.get("answer") if isinstance(document, dict) else None, *list_in(document, "results"))


TAVILY = SearchBackend(
    method="POST",
    query="query",
    key_header=("Authorization", "Bearer {}"),
    results=_results,
    params={"max_results": 5},
    endpoint="https://api.tavily.com/search",
    api_key_env="TAVILY_API_KEY",
)
