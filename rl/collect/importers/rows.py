"""The records of a file, one at a time and in constant memory: JSON lines, JSON, CSV, each also packed with gzip; Parquet.

What a file is shows in its first character; only CSV and Parquet go by the ending. A file that cannot be read
raises BadFile, a damaged line is Rejected."""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, cast

from rl.base.errors import BadFile
from rl.base.leaves import leaf
from rl.base.outside_files import open_outside
from rl.collect.importers.fields import NotForUs, Refused, from_text
from rl.collect.importers.report import Record, fates
from rl.collect.json_stream import LONGEST, JsonReader
from rl.collect.storable import pointer_to_unstorable, unstorable
from rl.collect.traces.imported import Rejected

PACKED = ".gz"
_JSON = (".jsonl", ".ndjson", ".json")
PLAIN = (*_JSON, ".csv")
"""Endings of files that take no more room than their size says."""
SUFFIXES = (*_JSON, *(suffix + PACKED for suffix in _JSON), ".parquet")
TABLES = (*SUFFIXES, ".csv", ".csv" + PACKED)
FIRST = 20
"""Records that may all be wrong before the whole file is taken for one of another format."""
BUFFER = 2**18
"""Bytes that are looked at to see what a file is."""
Parser = Callable[[dict[str, Any], str], Iterable[Record]]
"""From a record and its location to what it says. Raises Refused."""
_Row = tuple[str, Any]
Cell = Callable[[str, str], Any]
"""From the name of a column and the text of a cell that begins as JSON to its value."""


def _from_cell(_: str, text: str) -> Any:
    return from_text(text)


def records(
    path: Path,
    parse: Parser,
    *,
    lists: tuple[str, ...] = (),
    columns: Mapping[str, str] | None = None,
    cell: Cell = _from_cell,
) -> Iterator[Record | Rejected]:
    """What ``parse`` makes of each record. A JSON object with one of ``lists`` in it is a file of that list's elements.

    ``columns``: what a column is read as, where that is the same in every record. Raises BadFile, also where none of the
    first records could be read."""
    outcomes = (_parse(row, where, parse, columns or {}) for where, row in rows(path, lists, cell))
    wrong: list[Rejected] = []
    for outcome in outcomes:
        if not isinstance(outcome, Rejected):
            yield from wrong
            yield from outcome
            break
        wrong.append(outcome)
        if len(wrong) == FIRST:
            raise _unreadable(path, wrong)
    else:
        if wrong:
            raise _unreadable(path, wrong)
    for outcome in outcomes:
        yield from [outcome] if isinstance(outcome, Rejected) else outcome


def _parse(row: Any, where: str, parse: Parser, columns: Mapping[str, str]) -> list[Record | Rejected] | Rejected:
    """All that a record says, at least one thing; Rejected where it is none of this format."""
    try:
        if isinstance(row, Rejected):
            return row
        if not isinstance(row, dict):
            raise Refused("is not a JSON object")
        if reason := unstorable(row):
            raise Refused(f"{pointer_to_unstorable(row)} {reason}".strip())
        *others, last = parse(row, where)
        return [*others, replace(last, columns=fates(row, [*others, last], {**columns, **last.columns}))]
    except NotForUs as refused:
        return [Rejected(where, str(refused))]
    except Refused as refused:
        return Rejected(where, str(refused))


def read_row(row: dict[str, Any], where: str, parse: Parser) -> list[Record | Rejected]:
    """What a record that came without a file says, or why it is refused."""
    outcome = _parse(row, where, parse, {})
    return [outcome] if isinstance(outcome, Rejected) else outcome


def _unreadable(path: Path, wrong: list[Rejected]) -> BadFile:
    return BadFile(path, f"nothing in it could be read: {wrong[0].reason}", wrong[0].where)


def rows(path: Path, lists: tuple[str, ...] = (), cell: Cell = _from_cell) -> Iterator[_Row]:
    """The location and the parsed value of each record; the value of a damaged line is a Rejected."""
    name = path.name.lower().removesuffix(PACKED)
    if name.endswith(".parquet"):
        yield from leaf("rl.collect.importers.parquet").rows(path)
        return
    with open_unpacked(path) as file:
        start = file.peek(4)[:4]
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise BadFile(path, "not UTF-8 (it begins as UTF-16 does); save it as UTF-8")
        if name.endswith(".csv"):
            yield from _table(path, file, cell)
        else:
            yield from _json(path, file, lists)


@contextmanager
def open_unpacked(path: Path) -> Iterator[BufferedReader]:
    """Unpacked where it is packed. Raises BadFile, from within the block too."""
    with open_outside(path, BUFFER) as raw:
        if not path.name.lower().endswith(PACKED):
            yield cast("BufferedReader", raw)
            return
        try:
            with Inflated(raw, path) as unpacked:
                yield BufferedReader(cast("RawIOBase", unpacked), BUFFER)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadFile(path, f"a damaged gzip file: {error}") from error


def _json(path: Path, file: BufferedReader, lists: tuple[str, ...]) -> Iterator[_Row]:
    first = file.peek(BUFFER).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if first == b"[":
        reader = JsonReader(path, file)
        yield from _elements(reader)
        reader.end()
    elif first == b"{" and not _is_lines(path, file):
        reader = JsonReader(path, file)
        beside: dict[str, Any] = {}
        has_list = False
        for key in reader.members():
            if key in lists and reader.peek() == "[":
                has_list = True
                yield from _elements(reader)
            else:
                beside[key] = reader.value()
        if not has_list:
            yield "record 1", beside
        reader.end()
    else:
        yield from ((f"line {number}", value) for number, value in lines(file))


def lines(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    """The number, from 1, and the JSON value of each line that is not blank; of a damaged one a Rejected."""
    for number, line in enumerate(_cut(file), start=1):
        if line is None:
            yield number, Rejected(f"line {number}", f"is longer than {LONGEST // 2**20} MiB")
        elif line.strip():
            yield number, _value(line, f"line {number}", first=number == 1)


def _is_lines(path: Path, file: BufferedReader) -> bool:
    """One whole object on the first line, and more after it; or the ending says so."""
    name = path.name.lower().removesuffix(PACKED)
    if name.endswith((".jsonl", ".ndjson")):
        return True
    line, _, rest = file.peek(BUFFER).removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    try:
        return isinstance(json.loads(line), dict) and bool(rest.strip())
    except (ValueError, RecursionError):
        return False


def _elements(reader: JsonReader) -> Iterator[_Row]:
    reader.location = "at the first record"
    for number, value in enumerate(reader.elements(), start=1):
        reader.location = f"after record {number}"
        yield f"record {number}", value


def _cut(file: BinaryIO) -> Iterator[bytes | None]:
    """The lines; None for one that is too long to be read."""
    while line := file.readline(LONGEST + 1):
        if len(line) <= LONGEST:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST)
        yield None


def _value(line: bytes, where: str, *, first: bool) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig" if first else "utf-8"))
    except UnicodeDecodeError:
        return Rejected(where, "is not UTF-8")
    except json.JSONDecodeError as error:
        return Rejected(where, f"is not JSON: {error.msg[0].lower()}{error.msg[1:]}")
    except RecursionError:
        return Rejected(where, "is nested too deeply")
    except ValueError:
        return Rejected(where, "contains a number of thousands of digits")


def _table(path: Path, file: BufferedReader, cell: Cell) -> Iterator[_Row]:
    """Rows of a CSV file with a head; JSON in a cell is read as such, unless ``cell`` says otherwise."""
    csv.field_size_limit(LONGEST)
    lines = csv.DictReader(_bounded_lines(path, TextIOWrapper(file, encoding="utf-8-sig", newline="")), strict=True)
    try:
        for row in lines:
            where = f"line {lines.line_num}"
            if None in row:
                yield where, Rejected(where, "has more cells than the head of the table")
            else:
                texts = ((name, text) for name, text in row.items() if text)
                yield where, {name: cell(name, text) if text[0] in '{["' else text for name, text in texts}
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadFile(path, f"not valid CSV in UTF-8: {error}", f"line {lines.line_num}") from error


def _bounded_lines(path: Path, text: TextIOWrapper) -> Iterator[str]:
    while line := text.readline(LONGEST + 1):
        if len(line) > LONGEST:
            raise BadFile(path, f"not valid CSV: a line is longer than {LONGEST // 2**20} million characters")
        yield line


MOST_TIMES, ALWAYS_FINE = 250, 64 * 2**20
"""How often its own size a packed file may unpack to, and the bytes that any may. Chat logs reach about 20."""


def too_much(path: Path) -> BadFile:
    return BadFile(path, f"unpacks to more than {MOST_TIMES} times its size; unpack it first if that is right")


class Inflated(gzip.GzipFile):
    """The unpacked bytes of a file, until they are too many to be anything but a bomb. Raises BadFile."""

    def __init__(self, packed: BinaryIO, path: Path) -> None:
        super().__init__(fileobj=packed)
        self._path, self._left = path, max(ALWAYS_FINE, MOST_TIMES * path.stat().st_size)

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self._left -= len(data)
        if self._left < 0:
            raise too_much(self._path)
        return data
