"""Reads a large JSON file one element at a time, in memory that depends on the largest element and not on the file.

The standard library's parser decodes each element, because the streaming parsers at hand do harm to what people send: yajl
turns half a surrogate pair (text that was cut in the middle of an emoji) into another character without a word, gives up the
whole file over one number that is too large, and event parsers keep the path of every bracket, which lets 200 kB of "["
take all memory. Here such an element arrives as it is, for the caller to refuse by name."""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rl.base.errors import BadFile
from rl.base.outside_files import open_outside

LONGEST = 16 * 2**20
"""Characters of one element. Real ones have a few thousand."""
_CHUNK = 2**16
_SPACE = " \t\n\r"
_SETTLED = 4
"""A number may go on after the end of what was read ("1" then ".5", "1e+" then "5"), so this much must follow it."""


@contextmanager
def open_json(path: Path) -> Iterator[JsonReader]:
    """Raises BadFile, from within the block too, for what cannot be read, is not UTF-8, or is not JSON."""
    with open_outside(path) as file:
        yield JsonReader(path, file)


class JsonReader:
    """A cursor. ``location`` is what an error calls the element at hand, beside the position."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.location = path, ""
        self._file = file
        self._characters = getincrementaldecoder("utf-8-sig")()
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._before, self._ended = "", 0, 0, False

    def members(self) -> Iterator[str]:
        """The keys of the object that comes next; the caller takes each value before it asks for the next key."""
        for _ in self._walk_items("{", "}"):
            key = self.value() if self.peek() == '"' else None
            if not isinstance(key, str):
                raise self.bad_file("a key in quotes was expected")
            self._expect(":")
            yield key

    def elements(self) -> Iterator[Any]:
        for _ in self._walk_items("[", "]"):
            yield self.value()

    def value(self) -> Any:
        self.peek()
        wanted = _CHUNK
        while True:
            error: Exception | None = None
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                if self._ended or len(self._text) - end >= _SETTLED:
                    self._at = end
                    return value
            except RecursionError:
                raise self.bad_file("nested too deeply") from None
            except ValueError as problem:
                error = problem
            if self._ended or len(self._text) - self._at > LONGEST:
                raise self.bad_file(_explain(error, self._ended), getattr(error, "pos", None)) from None
            self._read(wanted)
            wanted *= 2

    def peek(self) -> str:
        """The next character that is not white space; empty at the end of the file."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._read(_CHUNK)

    def end(self) -> None:
        """Nothing may follow."""
        if self.peek():
            raise self.bad_file("something follows the end of the JSON value")

    def bad_file(self, what: str, at: int | None = None) -> BadFile:
        position = f"character {self._before + (self._at if at is None else at) + 1}"
        return BadFile(self.path, f"not valid JSON: {what}", ", ".join(filter(None, (self.location, position))))

    def _walk_items(self, opening: str, closing: str) -> Iterator[None]:
        self._expect(opening)
        if self.peek() == closing:
            self._at += 1
            return
        while True:
            yield
            if self.peek() == closing:
                self._at += 1
                return
            self._expect(",")

    def _expect(self, character: str) -> None:
        if (actual := self.peek()) != character:
            raise self.bad_file(f"{character!r} was expected, {f'{actual!r} was found' if actual else 'the file ends'}")
        self._at += 1

    def _read(self, count: int) -> None:
        chunk = self._file.read(count)
        self._ended = not chunk
        try:
            more = self._characters.decode(chunk, final=self._ended)
        except UnicodeDecodeError as error:
            good = len(error.object[: error.start].decode(errors="ignore"))
            raise self.bad_file(f"not UTF-8 ({error.reason})", len(self._text) + good) from None
        self._before += self._at
        self._text, self._at = self._text[self._at :] + more, 0


def _explain(error: Exception | None, ended: bool) -> str:
    if not ended and str(error).startswith("Unterminated string"):
        error = None
    if isinstance(error, json.JSONDecodeError):
        return error.msg[0].lower() + error.msg[1:]
    return str(error or f"an element of more than {LONGEST // 2**20} million characters")
