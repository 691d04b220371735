"""The tool itself."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

from rl.base.files import write_json
from rl.environments.tools.registry import BaseTool, ToolFailed
from rl.environments.tools.search import SearchDocuments, corpus_index, count_of_results
from rl.environments.tools.web_search.backend import LARGEST_ANSWER, SearchReply, SearchResult, plain
from rl.environments.tools.web_search.settings import SearchSettings

LONGEST_QUERY = 400
"""Characters."""
log = logging.getLogger(__name__)
_LOCKS = tuple(threading.Lock() for _ in range(64))
"""One of them is held while a question is asked, so that threads with the same one send it once."""
LONGEST_WAIT = 60.0
"""Seconds before another try; a server that asks for more is not asked again."""
_MINUTE = 60.0
_FARTHEST = 15 * _MINUTE
"""A turn that lies farther ahead was taken before somebody set the clock back."""
_own_lock = threading.Lock()
_turns_here: defaultdict[Path, list[float]] = defaultdict(list)
"""The turns of this process alone, where they cannot be written down."""


def search_tool(settings: SearchSettings, cache_dir: Path) -> BaseTool:
    """``cache_dir`` may be shared by trainings. Raises UsageError for a key that is missing, and as ``read_corpus``."""
    if settings.mode == "corpus":
        corpus = settings.corpus
        documents = corpus_index(Path(corpus)) if corpus and isinstance(corpus, str) else tuple(corpus)
        return SearchDocuments(documents, most_characters=settings.max_snippet_chars)
    return WebSearch(settings, SearchCache(cache_dir))


class WebSearch(BaseTool):
    name = "search"

    def __init__(self, settings: SearchSettings, cache: SearchCache) -> None:
        self._settings, self._cache = settings, cache
        self._backend, self._endpoint = settings.backend(), settings.address()
        self._headers = settings.authorization()

    def run(self, query: str, top_k: int | None = None) -> str:
        """Searches the web and returns titles, addresses and passages of the best results.

        Args:
            query: Words to look for.
            top_k: At most so many results."""
        query = plain(query, LONGEST_QUERY + 1)
        if not query:
            raise ToolFailed("the query is empty")
        if len(query) > LONGEST_QUERY:
            raise ToolFailed(f"the query is longer than {LONGEST_QUERY} characters")
        every = self._results(query)
        lines = []
        for number, result in enumerate(every[: count_of_results(top_k, len(every))], start=1):
            title = " — ".join(part for part in (result.title, result.url) if part)
            lines += [f"[{number}] {title}".rstrip(), result.snippet[: self._settings.max_snippet_chars]]
        return "\n".join(filter(None, lines)) or "nothing found"

    def _results(self, query: str) -> Sequence[SearchResult]:
        params = {**self._backend.params, **self._settings.params, self._backend.query: query}
        path = self._cache.path(self._settings.provider, str(self._endpoint), query, params)
        with _LOCKS[int(path.name[:2], 16) % len(_LOCKS)]:
            results = self._cache.read(path)
            if results is None:
                results = self._read(self._ask(params))
                self._cache.write(path, query, results)
            return results

    def _ask(self, params: dict[str, Any]) -> SearchReply:
        """The first answer that asking again would not change, or the last."""
        settings, number = self._settings, 1
        while True:
            take_turn(self._cache.folder, self._endpoint.host, settings.rate_limit_per_min)
            answer = self._endpoint.exchange(self._backend.method, params, self._headers, settings.timeout)
            wait = wait_before_retry(number, settings.backoff_factor, answer.retry_after)
            is_passing = isinstance(answer.error, TimeoutError | ConnectionError)
            may_change = is_passing or answer.status == 429 or answer.status >= 500
            if not may_change or number > settings.max_retries or wait > LONGEST_WAIT:
                return answer
            pause(wait)
            number += 1

    def _read(self, answer: SearchReply) -> list[SearchResult]:
        """Raises ToolFailed."""
        if isinstance(answer.error, TimeoutError):
            raise self._failure(f"did not answer within {self._settings.timeout:g} seconds", timed_out=True)
        if answer.error:
            raise self._failure("cannot be reached", type(answer.error).__name__)
        if answer.status != 200:
            raise self._failure(_refusal(answer.status))
        if len(answer.body) > LARGEST_ANSWER:
            raise self._failure("gave an answer that is too long")
        try:
            return self._backend.results(json.loads(answer.body))
        except (ValueError, RecursionError):
            raise self._failure("gave an answer that cannot be read") from None

    def _failure(self, what: str, detail: str = "", timed_out: bool = False) -> ToolFailed:
        """``detail``: for the log."""
        log.warning("the search service at %s %s%s", self._endpoint, what, f": {detail}" if detail else "")
        return ToolFailed(f"the search service {what}", timed_out)


def _refusal(status: int) -> str:
    if status in (401, 403):
        return f"does not accept the key, or it is used up (HTTP {status})"
    if status == 429:
        return "allows no more searches now (HTTP 429)"
    if 300 <= status < 400:
        return f"redirects to another address, which is not followed (HTTP {status})"
    return f"has a failure of its own (HTTP {status})" if status >= 500 else f"refused the query (HTTP {status})"


class SearchCache:
    """What was asked before: one file for each question in a folder, for good. Keys and failures are not stored."""

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


def take_turn(folder: Path, host: str, per_minute: int | None) -> None:
    """Returns when another request to ``host`` is within the limit, None: none, of all processes that share ``folder``."""
    if per_minute is None:
        return
    with _turns(folder / f".{host}.turns") as turns:
        now = time.time()
        turns[:] = sorted(turn for turn in turns if now - _MINUTE < turn < now + _FARTHEST)
        turn = max(now, turns[-per_minute] + _MINUTE) if len(turns) >= per_minute else now
        turns.append(turn)
    pause(turn - now)


@contextmanager
def _turns(path: Path) -> Iterator[list[float]]:
    """When requests were or will be sent, in seconds since 1970; what becomes of the list is kept."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
        flock(file, LOCK_EX)  # until it is closed
    except OSError as error:
        log.warning("%s cannot be written, so every process counts for itself: %s", path, error.strerror or error)
        with _own_lock:
            yield _turns_here[path]
        return
    with file:
        file.seek(0)
        try:
            stored = json.load(file)
        except (ValueError, RecursionError):  # it is damaged
            stored = None
        turns = [turn for turn in stored if isinstance(turn, float)] if isinstance(stored, list) else []
        turns = [turn for turn in turns if math.isfinite(turn)]
        yield turns
        file.truncate(0)
        json.dump(turns, file)


def wait_before_retry(number: int, factor: float, retry_after: str) -> float:
    """Seconds; ``number`` counts the tries so far. Both forms of the header are read, and what is neither is 0."""
    asked = 0.0
    if re.fullmatch(r"[0-9]{1,9}", retry_after):
        asked = float(retry_after)
    elif retry_after:
        with suppress(ValueError, OverflowError):
            moment = parsedate_to_datetime(retry_after)
            asked = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(min(factor * 2 ** (number - 1), LONGEST_WAIT), asked)


def pause(seconds: float) -> None:
    time.sleep(seconds)
