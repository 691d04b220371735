"""Filters, counts, writes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rl.base.errors import NotEnoughData, UsageError
from rl.base.records import Report
from rl.dataset_builder.exporting import row_format
from rl.dataset_builder.exporting.base import Filters, RowFormat
from rl.dataset_builder.exporting.writers import write
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
    filters: Filters
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
    """Writes the rows, or only counts them where there is no path. No feedback is marked as read.

    The file appears whole or not at all. Raises NotEnoughData when there is no row, and UsageError.
    """
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
