"""BM25 over the passages of texts in memory, and documents of an agent's own: a folder, or one file. ``.txt`` and ``.md``
are one document each, every line of a ``.jsonl`` is an object with a ``text``."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from rl.base.errors import BadFile, UsageError
from rl.base.outside_files import read_text
from rl.data_formatter.jsonl import json_lines
from rl.environments.tools.registry import BaseTool

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
            top_k: How many passages."""
        words = _WORD.findall(query)
        if not words:
            return "nothing found: the query has no words"
        texts = self._index.best(words, count_of_results(top_k, self._most), self._characters)
        passages = (f"[{number}] {text}" for number, text in enumerate(texts, start=1))
        return "\n".join(passages) or "nothing found"


MOST_BYTES = 64 * 2**20
"""The most bytes of all files together: they are kept in the memory of every process that searches them."""
MOST_DOCUMENTS = 100_000
_TEXTS, _ROWS = (".txt", ".md"), ".jsonl"


@lru_cache(maxsize=2)
def corpus_index(path: Path) -> DocumentIndex:
    """As it was when it was first asked for; all environments of a process share it. Raises as ``read_corpus``."""
    return DocumentIndex(read_corpus(path))


def read_corpus(path: Path) -> list[str]:
    """One or more, in the order of the files' names. Raises UsageError, or BadFile that names the file and line."""
    files = _files(path)
    if sum(file.stat().st_size for file in files) > MOST_BYTES:
        raise UsageError(f"tools.search.corpus {path} has more than {MOST_BYTES // 2**20} MiB of documents")
    texts: list[str] = []
    for file in files:
        texts += (text for text in _documents(file) if text.strip())
        if len(texts) > MOST_DOCUMENTS:
            raise UsageError(f"tools.search.corpus {path} has more than {MOST_DOCUMENTS} documents")
    if not texts:
        raise UsageError(f"tools.search.corpus {path} has no documents: {', '.join(_TEXTS)} or {_ROWS} files with text")
    return texts


def _files(path: Path) -> list[Path]:
    """Hidden ones are left out, and links that lead nowhere."""
    if path.is_dir():
        files = (file for file in path.rglob("*") if _is_document(file))
        return sorted(file for file in files if not any(part[0] == "." for part in file.relative_to(path).parts))
    if not path.is_file():
        raise UsageError(f"tools.search.corpus must be a folder or a file, there is no {path}")
    if not _is_document(path):
        raise UsageError(f"tools.search.corpus must be a {', '.join(_TEXTS)} or {_ROWS} file, or a folder, not {path}")
    return [path]


def _is_document(file: Path) -> bool:
    return file.is_file() and file.suffix.lower() in (*_TEXTS, _ROWS)


def _documents(file: Path) -> Iterator[str]:
    if file.suffix.lower() == _ROWS:
        for number, row in json_lines(file):
            if not isinstance(row, dict) or not isinstance(row.get("text"), str):
                raise BadFile(file, "a document must be an object with a text in 'text'", f"line {number}")
            yield row["text"]
        return
    yield read_text(file)
