"""The files of a training set, written beside their final place and moved there whole."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from pathlib import Path
from typing import IO, Any, Final

from rl.base.errors import TrainingFailed
from rl.base.files import scratch_directory

TRAIN, HELD_OUT, MANIFEST, FEEDBACK = "train.jsonl", "heldout.jsonl", "manifest.json", "feedback.ids"


class RowWriter:
    """Writes JSON lines, counts them and hashes what they teach: the numbers of ratings are the database's own, and the same
    rows have the same hash whatever other ratings there were."""

    def __init__(self, file: IO[bytes]) -> None:
        self.rows = 0
        self._hash = hashlib.sha256()
        self._file = file
        self._lines = LineEncoder()

    def write(self, row: dict[str, Any]) -> None:
        line, without_numbers = self._lines.encode(row)
        self._file.write(line)
        self._hash.update(without_numbers)
        self.rows += 1

    def digest(self) -> bytes:
        return self._hash.digest()


@contextmanager
def staging_folder(final: Path) -> Iterator[Path]:
    """Yields an empty folder; whoever wants to keep it publishes it. Otherwise nothing of it is left. Raises
    TrainingFailed when the disk refuses."""
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        with scratch_directory(final) as partial:
            yield partial
    except OSError as error:
        raise TrainingFailed(
            f"the training set cannot be written to {final.parent}: {error.strerror or error}"
        ) from error


def read_feedback_ids(folder: Path) -> array[int]:
    with (folder / FEEDBACK).open(encoding="ascii") as lines:
        return array("q", map(int, lines))


_ANSWERS: Final = ("chosen", "rejected", "completion")
_MESSAGE: Final = ("role", "content")
_KEPT: Final = 100
"""Texts of answers that are remembered; those of one prompt follow each other."""


class LineEncoder:
    """What rows that follow each other share, their prompt and the words of their answers, is escaped once."""

    def __init__(self) -> None:
        self._prompt: Sequence[object] = ()
        self._of_prompt = b"[]"
        self._texts: dict[str, bytes] = {}

    def encode(self, row: dict[str, Any]) -> tuple[bytes, bytes]:
        """The line, and the line with how much feedback is behind the row in the place of its numbers."""
        columns = {name: self._column(name, value) for name, value in row.items()}
        line = _join(columns)
        columns["feedback"] = b'"feedback":%d' % len(row.get("feedback", ()))
        return line, _join(columns)

    def _column(self, name: str, value: Any) -> bytes:
        if name == "prompt":
            return b'"prompt":' + self._messages_of_prompt(value)
        if name in _ANSWERS and value and len(value) == 1 and tuple(value[0]) == _MESSAGE:
            [message] = value
            return b'"%b":[{"role":%b,"content":%b}]' % (
                name.encode(),
                _json(message["role"]),
                self._text(message["content"]),
            )
        return b'"%b":%b' % (name.encode(), _json(value))

    def _messages_of_prompt(self, messages: Sequence[object]) -> bytes:
        """The same messages, not equal ones: these may have their keys in another order."""
        if len(messages) != len(self._prompt) or not all(map(is_, messages, self._prompt)):
            self._prompt, self._of_prompt = messages, _json(messages)
        return self._of_prompt

    def _text(self, text: str) -> bytes:
        if text not in self._texts:
            if len(self._texts) == _KEPT:
                self._texts.clear()
            self._texts[text] = _json(text)
        return self._texts[text]


def _join(columns: dict[str, bytes]) -> bytes:
    return b"{%b}\n" % b",".join(columns.values())


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _json(value: Any) -> bytes:
    return _encode(value).encode()
