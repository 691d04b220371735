"""An endpoint of your own: SearXNG, Brave, a service in your network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl.environments.tools.web_search.backend import SearchBackend, SearchResult, list_in, read_results

QUERY = "{query}"
_PLACES = ((), ("results",), ("items",), ("organic",), ("data",), ("hits",), ("web", "results"), ("webPages", "value"))


def custom_backend(params: Mapping[str, Any]) -> SearchBackend:
    """A GET whose parameter ``q`` holds the query, or the one whose value in ``params`` is ``{query}``; a key goes as
    ``Authorization: Bearer``. The answer is a list of results, or an object with one at a usual place."""
    query = next((name for name, value in params.items() if value == QUERY), "q")
    return SearchBackend("GET", query, ("Authorization", "Bearer {}"), _results)


def _results(document: Any) -> list[SearchResult]:
    for path in _PLACES:
        try:
            return read_results(*list_in(document, *path))
        except ValueError:
            continue
    raise ValueError("it has no list of results")
