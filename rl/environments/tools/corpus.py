"""Documents of an agent's own: a folder, or one file. ``.txt`` and ``.md`` are one document each, every line of a ``.jsonl``
is an object with a ``text``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from rl.base.errors import BadFile, UsageError
from rl.base.outside_files import read_text
from rl.data_formatter.jsonl import json_lines
from rl.environments.tools.search import DocumentIndex

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
        return sorted(file for file in path.rglob("*") if _is_document(file) and not _is_hidden(file, path))
    if not path.is_file():
        raise UsageError(f"tools.search.corpus must be a folder or a file, there is no {path}")
    if not _is_document(path):
        raise UsageError(f"tools.search.corpus must be a {', '.join(_TEXTS)} or {_ROWS} file, or a folder, not {path}")
    return [path]


def _is_document(file: Path) -> bool:
    return file.is_file() and file.suffix.lower() in (*_TEXTS, _ROWS)


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _documents(file: Path) -> Iterator[str]:
    if file.suffix.lower() == _ROWS:
        for number, row in json_lines(file):
            if not isinstance(row, dict) or not isinstance(row.get("text"), str):
                raise BadFile(file, "a document must be an object with a text in 'text'", f"line {number}")
            yield row["text"]
        return
    yield read_text(file)
