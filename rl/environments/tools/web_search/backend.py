"""How a search service is asked: what tells Tavily, Serper and Bing from another, what of their answers are results, and one
HTTP exchange with the configured host, and no other.

Redirects are not followed and proxies not used: the key goes to that host or nowhere."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode, urlsplit

from rl.base.errors import UsageError
from rl.environments.tools.search import MOST_RESULTS

LONGEST_SNIPPET = 8000
"""Characters that are kept; how many of them the agent reads is a setting."""
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
    title, url = (plain(values.get(part, ""), 200) for part in ("title", "url"))
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
LARGEST_ANSWER = 1 << 20
"""Bytes."""
_LOCAL = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:]*:[0-9a-f:.]*")
_PATH = re.compile(r"[!-~]*")


class SearchReply(NamedTuple):
    status: int
    """0: there was none, and ``error`` says why."""
    body: bytes = b""
    """At most LARGEST_ANSWER + 1 bytes."""
    retry_after: str = ""
    """The header; empty: none."""
    error: OSError | HTTPException | None = None


@dataclass(frozen=True, slots=True)
class SearchEndpoint:
    secure: bool
    host: str
    port: int | None
    path: str

    @classmethod
    def parse(cls, url: str) -> SearchEndpoint:
        """Raises UsageError for all but plain https addresses, and http ones of this machine."""
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname or ""
        except ValueError as error:
            raise UsageError(f"endpoint is not usable: {error}") from None
        if parts.username is not None or parts.query or parts.fragment:
            raise UsageError("endpoint must have no user name, '?' or '#': parameters belong in default_params")
        if not _HOST.fullmatch(host) or not _PATH.fullmatch(parts.path):
            raise UsageError(f"endpoint must look like https://search.example/search, not {url[:100]!r}")
        if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOCAL):
            raise UsageError(f"endpoint must begin with https:// (http:// only for this machine), not {url[:100]!r}")
        return cls(parts.scheme == "https", host, port, parts.path or "/")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}{f':{self.port}' if self.port else ''}{self.path}"

    def exchange(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str], timeout: float
    ) -> SearchReply:
        """``timeout``: seconds to connect, and again for the whole answer."""
        kind = HTTPSConnection if self.secure else HTTPConnection
        connection = kind(self.host, self.port, timeout=timeout)
        try:
            connection.connect()
            path, body = self.path, None
            all_headers = {"Accept": "application/json", "User-Agent": "ratchet", **headers}
            if method == "POST":
                body, all_headers["Content-Type"] = json.dumps(params).encode(), "application/json"
            else:
                words = {
                    name: str(value).lower() if isinstance(value, bool) else value for name, value in params.items()
                }
                path = f"{path}?{urlencode(words, doseq=True)}"
            with _cut_off_after(timeout, connection.sock):
                connection.request(method, path, body, all_headers)
                response = connection.getresponse()
                answer = response.read(LARGEST_ANSWER + 1)
                return SearchReply(response.status, answer, response.headers.get("Retry-After") or "")
        except (OSError, HTTPException) as error:
            return SearchReply(0, error=error)
        finally:
            connection.close()


@contextmanager
def _cut_off_after(seconds: float, connected: socket.socket) -> Iterator[None]:
    """The timeout of a socket begins anew with every byte; this one does not. Raises TimeoutError."""
    expired = threading.Event()

    def cut_off() -> None:
        expired.set()
        with suppress(OSError):
            socket.socket.shutdown(connected, socket.SHUT_RDWR)  # not that of TLS, which another thread is using

    timer = threading.Timer(seconds, cut_off)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, HTTPException):
        if not expired.is_set():
            raise
    finally:
        timer.cancel()
    if expired.is_set():
        raise TimeoutError("the answer took too long")
