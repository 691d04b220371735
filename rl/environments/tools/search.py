"""BM25 over texts in memory."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from rl.environments.tools.base import BaseTool

_WORD = re.compile(r"\w+")


class DocumentIndex:
    """BM25 over texts in memory, by SQLite's FTS5."""

    def __init__(self, documents: Sequence[str]) -> None:
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._connection.execute("CREATE VIRTUAL TABLE document USING fts5(text, tokenize = 'porter unicode61')")
        self._connection.executemany("INSERT INTO document VALUES (?)", ((text,) for text in documents))

    def best(self, words: Sequence[str], most: int) -> list[str]:
        """The best of the texts that have any of the words."""
        best = "SELECT text FROM document WHERE document MATCH ? ORDER BY bm25(document), rowid LIMIT ?"
        expression = " OR ".join(f'"{word}"' for word in words)
        return [text for (text,) in self._connection.execute(best, (expression, most))]


class SearchDocuments(BaseTool):
    name = "search"

    def __init__(
        self, documents: Sequence[str] | DocumentIndex = (), most_results: int = 3, most_characters: int = 520
    ) -> None:
        """``most_characters``: of each result."""
        self._most, self._characters = most_results, most_characters
        self._own = documents if isinstance(documents, DocumentIndex) else DocumentIndex(documents)
        self._index = self._own

    def use(self, documents: Sequence[str]) -> None:
        """Searches these from now on; its own where there are none."""
        self._index = DocumentIndex(documents) if documents else self._own

    def run(self, query: str) -> str:
        """Searches the documents and returns the best passages.

        Args:
            query: Words to look for.
        """
        words = _WORD.findall(query)
        if not words:
            return "nothing found: the query has no words"
        texts = self._index.best(words, self._most)
        passages = (f"[{number}] {text[: self._characters]}" for number, text in enumerate(texts, start=1))
        return "\n".join(passages) or "nothing found"
