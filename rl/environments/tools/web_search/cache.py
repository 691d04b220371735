"""What was asked before, on disk."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rl.base.files import write_json
from rl.environments.tools.web_search.backend import SearchResult

log = logging.getLogger(__name__)


class SearchCache:
    """One file for each question in a folder, for good. Keys and failures are not stored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, provider: str, endpoint: str, query: str, params: Mapping[str, Any]) -> Path:
        question = json.dumps([provider, endpoint, query, params], sort_keys=True)
        return self.folder / f"{hashlib.sha256(question.encode()).hexdigest()}.json"

    def read(self, path: Path) -> list[SearchResult] | None:
        """None: not there, or damaged."""
        try:
            stored = json.loads(path.read_bytes())["results"]
            results = [SearchResult(entry["title"], entry["url"], entry["snippet"]) for entry in stored]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None
        return results if all(isinstance(part, str) for result in results for part in result) else None

    def write(self, path: Path, query: str, results: Sequence[SearchResult]) -> None:
        """A disk that refuses costs the next one a request, not this one its answer."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(path, {"query": query, "results": [result._asdict() for result in results]})
        except OSError as error:
            log.warning("a search result could not be kept in %s: %s", self.folder, error.strerror or error)
