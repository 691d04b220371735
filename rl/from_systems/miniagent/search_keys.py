"""Its section ``tools.search``, and the texts that are searched where a task has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rl.environments.config_file import Document

DEFAULTS: Mapping[str, Any] = {"timeout": 15, "max_retries": 2, "backoff_factor": 0.8, "max_snippet_chars": 480}


def read_search(values: dict[str, Any], document: Document) -> list[str]:
    """Puts into the values of the file what the section means here. Notes for the owner. Raises BadFile."""
    tools = values.setdefault("tools", {})
    corpus = values["env"].pop("default_corpus", None)
    if corpus is not None and not _are_texts(corpus):
        raise document.refusal("env.default_corpus must be a list of texts", ("env", "default_corpus"))
    if not isinstance(tools, dict) or not isinstance(tools.setdefault("search", {}), dict):
        return []
    search, notes = tools["search"], []
    own = search.pop("corpus", None)
    fallback = corpus or own
    if search.setdefault("mode", "web" if search and not fallback else "corpus") == "web":
        if fallback:
            notes.append("the corpus has no effect: tools.search.mode is web")
        search.setdefault("provider", "tavily")
        search.setdefault("rate_limit_per_min", None)
    elif fallback:
        search["corpus"] = fallback
    search |= {key: value for key, value in DEFAULTS.items() if search.get(key) is None}
    return notes


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
