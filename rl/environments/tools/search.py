from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from rl.environments.tools.base import BaseTool

_WORD = re.compile(r"\w+")


class SearchDocuments(BaseTool):
    """BM25 over texts in memory, by SQLite's FTS5."""

    name = "search"

    def __init__(self, documents: Sequence[str] = (), most_results: int = 3, most_characters: int = 520) -> None:
        """``most_characters``: of each result."""
        self._most, self._characters = most_results, most_characters
        self._own = tuple(documents)
        self.use(())

    def use(self, documents: Sequence[str]) -> None:
        """Searches these from now on; its own where there are none."""
        texts = [(text,) for text in documents or self._own]
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute("CREATE VIRTUAL TABLE document USING fts5(text, tokenize = 'porter unicode61')")
        self._index.executemany("INSERT INTO document VALUES (?)", texts)

    def run(self, query: str) -> str:
        """Searches the documents and returns the best passages.

        Args:
            query: Words to look for.
        """
        words = " OR ".join(f'"{word}"' for word in _WORD.findall(query))
        if not words:
            return "nothing found: the query has no words"
        best = "SELECT text FROM document WHERE document MATCH ? ORDER BY bm25(document), rowid LIMIT ?"
        found = [text for (text,) in self._index.execute(best, (words, self._most))]
        passages = (f"[{number}] {text[: self._characters]}" for number, text in enumerate(found, start=1))
        return "\n".join(passages) or "nothing found"
