"""Bing Web Search 7: https://learn.microsoft.com/en-us/bing/search-apis/bing-web-search/reference/endpoints

Microsoft closed it to most customers on 11 August 2025; with the setting ``endpoint`` this asks a service that speaks it.
"""

from __future__ import annotations

from typing import Any

from rl.environments.tools.web_search.backend import SearchBackend, SearchResult, list_in, read_results


def _results(document: Any) -> list[SearchResult]:
    """Bing leaves ``webPages`` out when it found none."""
    if isinstance(document, dict) and document.get("_type") == "SearchResponse" and "webPages" not in document:
        return []
    return read_results(*list_in(document, "webPages", "value"))


BING = SearchBackend(
    method="GET",
    query="q",
    key_header=("Ocp-Apim-Subscription-Key", "{}"),
    results=_results,
    params={"count": 5},
    endpoint="https://api.bing.microsoft.com/v7.0/search",
    api_key_env="BING_API_KEY",
)
