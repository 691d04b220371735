"""BM25 over the passages of texts in memory."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence

from rl.environments.tools.base import BaseTool

PASSAGE, HEAD = 300, 120
"""Characters of a passage that is ranked, whole sentences where it can be; of a document's beginning, which tells what all
of its passages are about."""
_BEST = "SELECT rowid, document FROM passage WHERE passage MATCH ? ORDER BY bm25(passage, 1.0, 0.3), rowid LIMIT ?"
"""A word of the document's beginning counts less for a later passage than one of its own."""
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r".+?(?:[.!?\u3002]+[\"'\u201d)]*\s+|\n+|\Z)", re.DOTALL)


MOST_RESULTS = 10


def count_of_results(top_k: int | None, usual: int) -> int:
    """How many results a call gets that asks for ``top_k``."""
    return usual if top_k is None else max(1, min(top_k, MOST_RESULTS))


class DocumentIndex:
    """By SQLite's FTS5."""

    def __init__(self, documents: Sequence[str]) -> None:
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._connection.execute(
            "CREATE VIRTUAL TABLE passage USING fts5(text, head, document UNINDEXED, tokenize = 'porter unicode61')"
        )
        rows = (
            (text, document[:HEAD] if part else "", number)
            for number, document in enumerate(documents)
            for part, text in enumerate(_passages(document))
        )
        self._connection.executemany("INSERT INTO passage VALUES (?, ?, ?)", rows)

    def best(self, words: Sequence[str], most: int, characters: int) -> list[str]:
        """At most ``characters`` of a document each, from its best passage on. None is shown twice."""
        expression = " OR ".join(f'"{word}"' for word in words)
        texts: list[str] = []
        shown: set[int] = set()
        for first, document in self._connection.execute(_BEST, (expression, most * 4)):
            if first not in shown and len(texts) < most:
                rows, text = self._from(first, document, characters, shown)
                shown |= rows
                texts.append(text)
        return texts

    def _from(self, first: int, document: int, characters: int, shown: set[int]) -> tuple[set[int], str]:
        """The passages that are shown whole, and the text."""
        following = "SELECT rowid, text FROM passage WHERE rowid BETWEEN ? AND ? AND document = ? ORDER BY rowid"
        rows, text = {first}, ""
        for row, part in self._connection.execute(following, (first, first + characters // 8, document)):
            if row in shown:
                break
            text += part
            if len(text.rstrip()) > characters:
                break
            rows.add(row)
        return rows, text[:characters].rstrip()


def _passages(document: str) -> Iterator[str]:
    """All of it, in order; never empty where there are words."""
    passage = ""
    for sentence in _SENTENCE.findall(document):
        if passage and len(passage) + len(sentence.rstrip()) > PASSAGE:
            yield passage
            passage = ""
        passage += sentence
        while len(passage.rstrip()) > PASSAGE:
            end = passage.rfind(" ", 1, PASSAGE) + 1 or PASSAGE
            yield passage[:end]
            passage = passage[end:]
    if passage.strip():
        yield passage


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

    def run(self, query: str, top_k: int | None = None) -> str:
        """Searches the documents and returns the best passages.

        Args:
            query: Words to look for.
            top_k: How many passages.
        """
        words = _WORD.findall(query)
        if not words:
            return "nothing found: the query has no words"
        texts = self._index.best(words, count_of_results(top_k, self._most), self._characters)
        passages = (f"[{number}] {text}" for number, text in enumerate(texts, start=1))
        return "\n".join(passages) or "nothing found"
