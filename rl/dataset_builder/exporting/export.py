"""Filters, counts, writes. Files of rows appear whole or not at all."""

import json
from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rl.base.errors import NotEnoughData, UsageError
from rl.base.files import replacing
from rl.base.leaves import leaf
from rl.base.records import Report
from rl.dataset_builder.exporting import Column, ExportFilters, RowFormat, row_format
from rl.dataset_builder.plan.shortage import format_reasons, plural
from rl.dataset_builder.read.groups import Tally
from rl.models import Agent

SPLITS = ("train", "heldout", "all")
EVERY = 50_000
"""Rows between two reports of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """Raises UsageError for an unknown format, and for a value out of range."""

    format: str
    filters: ExportFilters
    split: str = "train"
    """train leaves out what is held out for testing, heldout takes only that."""
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise UsageError(f"split must be one of {', '.join(SPLITS)}, not {self.split!r}")
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"limit must be 1 or more, not {self.limit}")
        least = self.filters.min_reward
        low, high = row_format(self.format).rewards
        if least is not None and not low <= least <= high:
            raise UsageError(f"min_reward must be from {low:g} to {high:g}, not {least:g}")


@dataclass(slots=True)
class ExportReport:
    rows: int = 0
    """Written, or that would be."""
    other_side: int = 0
    """Rows passed by because the split keeps them apart."""
    limited: bool = False
    """Whether there may be more rows, on either side."""
    skipped: Counter[str] = field(default_factory=Counter)


def export(agent: Agent, request: ExportRequest, path: Path | None, file_format: str, report: Report) -> ExportReport:
    """Writes the rows, or only counts them where there is no path. No feedback is marked as read. The file appears
    whole or not at all. Raises NotEnoughData when there is no row, and UsageError."""
    tally, done = Tally(), ExportReport()
    source = row_format(request.format)(agent, request.filters, tally)
    report("stage", {"name": f"reading what {agent.name} answered"})
    counted_rows = _count_rows(_rows_of_split(source, request, done), done, request.limit, report)
    # An interruption closes the cursor at once.
    with closing(_not_empty(counted_rows, agent, request, done, tally)) as rows:
        if path is None:
            deque(rows, maxlen=0)
        else:
            write(path, file_format, source.columns, rows)
    done.skipped = tally.skipped
    return done


def _rows_of_split(source: RowFormat, request: ExportRequest, done: ExportReport) -> Iterator[dict[str, Any]]:
    for row in source.rows():
        if request.split == "all" or row.held_out == (request.split == "heldout"):
            yield row.values
        else:
            done.other_side += 1


def _count_rows(
    rows: Iterator[dict[str, Any]], done: ExportReport, limit: int | None, report: Report
) -> Iterator[dict[str, Any]]:
    for row in islice(rows, limit):
        done.rows += 1
        done.limited = done.rows == limit
        if done.rows % EVERY == 0:
            report("log", {"text": f"{done.rows:,} rows"})
        yield row


def _not_empty(
    rows: Iterator[dict[str, Any]], agent: Agent, request: ExportRequest, done: ExportReport, tally: Tally
) -> Generator[dict[str, Any], None, None]:
    """Raises inside the writer, which then leaves no file."""
    yield from rows
    if done.rows:
        return
    sentences = [f"no answer of {agent.name} gives a row of format {request.format}"]
    if done.other_side:
        sentences[0] += f" for --split {request.split}, {plural(done.other_side, 'row')} for the other side"
    if tally.skipped:
        sentences.append(f"left out: {format_reasons(tally.skipped.most_common(5))}")
    raise NotEnoughData(". ".join(sentences))


FILE_FORMATS = ("jsonl", "parquet")


def file_format(path: Path | None, name: str | None) -> str:
    """The one that was named, else by the suffix. Raises UsageError."""
    if name:
        return name
    suffix = path.suffix.lower().removeprefix(".") if path else FILE_FORMATS[0]
    if suffix not in FILE_FORMATS:
        raise UsageError(f"{path}: name the file .jsonl or .parquet, or say which with --file-format")
    return suffix


def write(path: Path, format_name: str, columns: Mapping[str, Column], rows: Iterator[dict[str, Any]]) -> None:
    """Raises UsageError when the file cannot be written, and for a folder, a device or a pipe: it would be replaced."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise UsageError(
            f"{path} is not a file: rows are written to a file of their own, which is then moved to its place"
        )
    rows = chain((next(rows),), rows)  # the source refuses to be empty, before a folder is made
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if format_name == "parquet":  # UsageError on a machine without pyarrow
            leaf("rl.dataset_builder.exporting.parquet").write(path, columns, rows)
            return
        with replacing(path, "wb") as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
