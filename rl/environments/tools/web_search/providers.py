"""Tavily, Serper and Bing: how each is asked, and what of its answers are results."""

from __future__ import annotations

from typing import Any

from rl.environments.tools.web_search.backend import SearchBackend, SearchResult, list_in, read_results


def _of_tavily(document: Any) -> list[SearchResult]:
    """``answer`` is there when ``include_answer`` is asked for."""
    return read_results(document.get("answer") if isinstance(document, dict) else None, *list_in(document, "results"))


def _of_serper(document: Any) -> list[SearchResult]:
    """Google's own answer first, where it has one."""
    organic = list_in(document, "organic")
    return read_results(document.get("answerBox"), document.get("knowledgeGraph"), *organic)


def _of_bing(document: Any) -> list[SearchResult]:
    """Bing leaves ``webPages`` out when it found none."""
    if isinstance(document, dict) and document.get("_type") == "SearchResponse" and "webPages" not in document:
        return []
    return read_results(*list_in(document, "webPages", "value"))


SEARCH_BACKENDS: dict[str, SearchBackend] = {
    # https://docs.tavily.com/documentation/api-reference/endpoint/search
    "tavily": SearchBackend(
        method="POST",
        query="query",
        key_header=("Authorization", "Bearer {}"),
        results=_of_tavily,
        params={"max_results": 5},
        endpoint="https://api.tavily.com/search",
        api_key_env="TAVILY_API_KEY",
    ),
    # Google's results: https://serper.dev (its playground documents the API).
    "serper": SearchBackend(
        method="POST",
        query="q",
        key_header=("X-API-KEY", "{}"),
        results=_of_serper,
        params={"num": 5},
        endpoint="https://google.serper.dev/search",
        api_key_env="SERPER_API_KEY",
    ),
    # Bing Web Search 7: https://learn.microsoft.com/en-us/bing/search-apis/bing-web-search/reference/endpoints
    # Microsoft closed it to most customers on 11 August 2025; with the setting ``endpoint`` this asks a service that
    # speaks it.
    "bing": SearchBackend(
        method="GET",
        query="q",
        key_header=("Ocp-Apim-Subscription-Key", "{}"),
        results=_of_bing,
        params={"count": 5},
        endpoint="https://api.bing.microsoft.com/v7.0/search",
        api_key_env="BING_API_KEY",
    ),
}
"""Every other name is that of an endpoint of your own."""
