"""What tells one provider from another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    values = {part: _first_text(item, names) for part, names in _NAMES.items()} if isinstance(item, dict) else {}
    title, url = (plain(values.get(part, ""), LONGEST_TITLE) for part in ("title", "url"))
    return SearchResult(title, url, plain(values.get("snippet", ""), LONGEST_SNIPPET))


def _first_text(item: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((text for name in names if isinstance(text := item.get(name), str) and text.strip()), "")
