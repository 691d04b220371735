"""``tools.search`` of a configuration."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.config.fields import check_fields, within
from rl.environments.tools.web_search.backend import (
    SEARCH_BACKENDS,
    SearchBackend,
    SearchEndpoint,
    SearchResult,
    list_in,
    read_results,
)

_SECRET = re.compile(r"(.*[_-])?(api[_-]?key|subscription-key|key|token|secret|password)", re.IGNORECASE)
_KEY = re.compile(r"[!-~]+")
_WORDS = {"mode": "web or corpus", "provider": "a name", "method": "GET or POST"}
QUERY = "{query}"
_PLACES = ((), ("results",), ("items",), ("organic",), ("data",), ("hits",), ("web", "results"), ("webPages", "value"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Raises UsageError, naming the key, for a value that is impossible."""

    PATTERNS: ClassVar[Mapping[str, str]] = {
        "mode": "web|corpus",
        "method": "(GET|POST)?",
        "provider": r"[A-Za-z0-9._-]{0,64}",
        "api_key_env": r"([A-Z_][A-Z0-9_]*)?",
    }

    mode: str = "corpus"
    """corpus: documents; web: a provider."""
    corpus: str | Sequence[str] = ""
    """Folder or file with the documents of mode corpus, or these texts themselves, for tasks that have none of their own."""
    provider: str = ""
    """A name of SEARCH_BACKENDS, or any other with ``endpoint``."""
    api_key_env: str = ""
    """Environment variable that holds the key; empty: the provider's own, as TAVILY_API_KEY."""
    endpoint: str = ""
    """Address that is asked; empty: the provider's own."""
    method: str = ""
    """GET or POST, of an endpoint of your own; empty: POST."""
    default_params: Mapping[str, Any] = field(default_factory=dict)
    """Sent with every query, as max_results."""
    timeout: float = within(0.1, 300, 20.0)
    """Seconds of one request."""
    max_retries: int = within(0, 10, 2)
    """Further tries after a request that may succeed later."""
    backoff_factor: float = within(0, 60, 0.8)
    """Seconds before the first of them; each further one waits twice as long."""
    rate_limit_per_min: int | None = within(1, 100_000, 8)
    """Requests to one host, of all processes that keep their results in the same folder; None: no limit."""
    max_snippet_chars: int = within(1, 4000, 520)
    """Characters of each result that the agent reads."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> SearchSettings:
        """Raises UsageError for a key that is unknown too."""
        if not isinstance(values, Mapping):
            raise UsageError(f"tools.search must be a mapping of keys and values, not {str(values)[:100]!r}")
        known = [entry.name for entry in fields(cls)]
        if "api_key" in values:
            raise UsageError(
                "tools.search.api_key: a key is not written down here; put it into an environment variable such as "
                "TAVILY_API_KEY, and its name into api_key_env"
            )
        for key in values:
            require_known("key", key, known, section="tools.search")
        return cls(**values)

    def __post_init__(self) -> None:
        for key, pattern in self.PATTERNS.items():
            value = getattr(self, key)
            if isinstance(value, str) and re.fullmatch(pattern, value):
                continue
            if key == "api_key_env":  # what stands there may be the key itself
                raise UsageError("tools.search.api_key_env must be the name of an environment variable, in capitals")
            raise _impossible(key, _WORDS[key], value)
        check_fields(self, "tools.search.")
        self._check_params()
        texts = self.corpus if isinstance(self.corpus, list | tuple) else ()
        are_texts = bool(texts) and all(isinstance(text, str) and text.strip() for text in texts)
        if not isinstance(self.corpus, str) and not are_texts:
            raise _impossible("corpus", "the path of a folder or a file, or a list of texts", self.corpus)
        if self.mode == "web":
            self._check_provider()
            if self.corpus:
                raise UsageError("tools.search.corpus is searched in mode corpus only: leave out one of the two")

    def backend(self) -> SearchBackend:
        asks_by_get = (self.method or self.default_params.get("method")) == "GET"
        return SEARCH_BACKENDS.get(self.provider) or custom_backend(self.params, "GET" if asks_by_get else "POST")

    @property
    def params(self) -> Mapping[str, Any]:
        """``default_params``, less a ``method`` that says how an endpoint of one's own is asked."""
        is_own = self.provider not in SEARCH_BACKENDS and self.default_params.get("method") in ("GET", "POST")
        return {key: value for key, value in self.default_params.items() if not (is_own and key == "method")}

    def address(self) -> SearchEndpoint:
        """Raises UsageError."""
        try:
            return SearchEndpoint.parse(self.endpoint or self.backend().endpoint)
        except UsageError as error:
            raise UsageError(f"tools.search: {error}") from None

    def authorization(self) -> dict[str, str]:
        """The header with the key, which is read from the environment and is in no message, log or file. Raises UsageError
        where it is missing."""
        backend = self.backend()
        variable = self.api_key_env or backend.api_key_env
        if not variable:
            return {}
        key = os.environ.get(variable, "").strip()
        if not _KEY.fullmatch(key):
            raise UsageError(f"the key for {self.provider} must be in the environment variable {variable}")
        name, value = backend.key_header
        return {name: value.format(key)}

    def _check_provider(self) -> None:
        if not self.provider:
            known = ", ".join(SEARCH_BACKENDS)
            raise UsageError(f"tools.search.provider is missing: {known}, or another name with endpoint")
        if not self.endpoint:
            require_known("tools.search.provider", self.provider, SEARCH_BACKENDS, "any name with endpoint")
        if self.method and self.provider in SEARCH_BACKENDS:
            raise UsageError(f"tools.search.method is for an endpoint of your own, and {self.provider} has its own way")
        self.address()

    def _check_params(self) -> None:
        for name, value in self.default_params.items():
            plain = all(
                isinstance(part, str | int) or (isinstance(part, float) and math.isfinite(part))
                for part in (value if isinstance(value, list) else [value])
            )
            if not isinstance(name, str) or not plain:
                raise _impossible(f"default_params.{name}", "a text, a number, true, false or a list of such", value)
            if _SECRET.fullmatch(name):
                raise UsageError(
                    f"tools.search.default_params must hold no {name}: api_key_env names the variable that has the key"
                )


def _impossible(key: str, right: str, value: Any) -> UsageError:
    return UsageError(f"tools.search.{key} must be {right}, not {str(value)[:100]!r}")


def custom_backend(params: Mapping[str, Any], method: Literal["GET", "POST"] = "POST") -> SearchBackend:
    """By POST, ``{"query": …, "top_k": 5}`` as JSON; by GET, the parameter ``q``. The parameter whose value in ``params`` is
    ``{query}`` holds the query instead; a key goes as ``Authorization: Bearer``. The answer is a list of results, or an
    object with one at a usual place, or, where that has none, with an ``answer``."""
    names = {"POST": "query", "GET": "q"}
    query = next((name for name, value in params.items() if value == QUERY), names[method])
    more = {"top_k": 5} if method == "POST" else {}
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
