"""Rows as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import is_
from typing import Any, Final

_ANSWERS: Final = ("chosen", "rejected", "completion")
_MESSAGE: Final = ("role", "content")
_KEPT: Final = 100
"""Texts of answers that are remembered; those of one prompt follow each other."""


class Lines:
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
