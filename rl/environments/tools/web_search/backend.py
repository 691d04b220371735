"""What tells one provider from another: how Tavily, Serper and Bing are asked, and what of their answers are results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

LONGEST_TITLE = 200
"""Characters; of an address too."""
LONGEST_SNIPPET = 8000
"""Characters that are kept; how many of them the agent reads is a setting."""
MOST_RESULTS = 10
_NAMES = {
    "title": ("title", "name"),
    "url": ("url", "link", "href", "website"),
    "snippet": ("answer", "snippet", "content", "description", "text", "body"),
}


class SearchResult(NamedTuple):
    """Text without line breaks."""

    title: str
    url: str
    snippet: str


@dataclass(frozen=True, slots=True)
class SearchBackend:
    """GET sends the parameters in the address, POST as a JSON object."""

    method: Literal["GET", "POST"]
    query: str
    """Parameter that holds the query."""
    key_header: tuple[str, str]
    """Name, and value with ``{}`` for the key."""
    results: Callable[[Any], list[SearchResult]]
    """Reads the results from the document that was answered. Raises ValueError when it has another shape."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Unless the settings have others."""
    endpoint: str = ""
    """Empty: the settings must name one."""
    api_key_env: str = ""
    """Empty: a key is sent only when the settings name a variable."""


def read_results(*items: Any) -> list[SearchResult]:
    """From objects with the usual names, or from texts; what has neither title nor text is left out."""
    results = (_result(item) for item in items)
    return [result for result in results if result.title or result.snippet][:MOST_RESULTS]


def list_in(document: Any, *path: str) -> list[Any]:
    """Raises ValueError when there is none."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    if not isinstance(document, list):
        raise ValueError(f"it has no list {'.'.join(path)}".rstrip())
    return document


def plain(text: str, most: int) -> str:
    """One line of at most ``most`` characters, without halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
    return " ".join(text.encode("utf-8", "replace").decode().split())[:most]


def _result(item: Any) -> SearchResult:
    if isinstance(item, str):
        return SearchResult("", "", plain(item, LONGEST_SNIPPET))
    values = {}
    for part, names in _NAMES.items() if isinstance(item, dict) else ():
        texts = (item.get(name) for name in names)
        values[part] = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    title, url = (plain(values.get(part, ""), LONGEST_TITLE) for part in ("title", "url"))
    return SearchResult(title, url, plain(values.get("snippet", ""), LONGEST_SNIPPET))


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
