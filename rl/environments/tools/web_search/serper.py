"""Google's results: https://serper.dev (its playground documents the API)."""

from __future__ import annotations

from typing import Any

from rl.environments.tools.web_search.backend import SearchBackend, SearchResult, list_in, read_results


def _results(document: Any) -> list[SearchResult]:
    """Google's own answer first, where it has one."""
    organic = list_in(document, "organic")
    return read_results(document.get("answerBox"), document.get("knowledgeGraph"), *organic)


SERPER = SearchBackend(
    method="POST",
    query="q",
    key_header=("X-API-KEY", "{}"),
    results=_results,
    params={"num": 5},
    endpoint="https://google.serper.dev/search",
    api_key_env="SERPER_API_KEY",
)
