"""An endpoint of your own: SearXNG, Brave, a service in your network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rl.environments.tools.web_search.backend import SearchBackend, SearchResult, list_in, read_results

QUERY = "{query}"
MOST = 5
"""Results that are asked for."""
_PLACES = ((), ("results",), ("items",), ("organic",), ("data",), ("hits",), ("web", "results"), ("webPages", "value"))


def custom_backend(params: Mapping[str, Any], method: Literal["GET", "POST"] = "POST") -> SearchBackend:
    """By POST, ``{"query": …, "top_k": 5}`` as JSON; by GET, the parameter ``q``. The parameter whose value in ``params`` is
    ``{query}`` holds the query instead; a key goes as ``Authorization: Bearer``. The answer is a list of results, or an
    object with one at a usual place, or, where that has none, with an ``answer``."""
    names = {"POST": "query", "GET": "q"}
    query = next((name for name, value in params.items() if value == QUERY), names[method])
    more = {"top_k": MOST} if method == "POST" else {}
    return SearchBackend(method, query, ("Authorization", "Bearer {}"), _results, more)


def _results(document: Any) -> list[SearchResult]:
    answer = read_results(document.get("answer")) if isinstance(document, dict) else []
    for path in _PLACES:
        try:
            return read_results(*list_in(document, *path)) or answer
        except ValueError:
            continue
    if not answer:
        raise ValueError("it has no list of results")
    return answer
