"""Imports files and folders of one format.

Everything is read to its end before anything is written, so a damaged file leaves the database as it was. Then it is read
again, unless it is small, and stored in short transactions: an import that is stopped has stored its first part, and the
next one goes on there."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from django.db import reset_queries

from rl.base.errors import BadFile, Interrupted, UsageError
from rl.base.outside_files import refuse_device
from rl.base.records import Report, silent
from rl.base.slugs import inside
from rl.collect.importers import ImportReport, Read, reader, scaled_reader
from rl.collect.importers.report import ImportSample, Ledger
from rl.collect.importers.rows import PLAIN
from rl.collect.traces.imported import Rejected
from rl.collect.traces.rows import chunks
from rl.collect.traces.write import CHUNK, Record, TraceStore
from rl.models import Agent

SMALL = 4 * 2**20
"""Bytes of files; as records in memory they may be twenty times as many."""


def import_files(
    format_name: str,
    paths: Iterable[Path | str],
    *,
    agent: Agent | None = None,
    scales: Sequence[str] = (),
    allow_unread: bool = False,
    dry_run: bool = False,
    report: Report = silent,
) -> ImportReport:
    """``agent`` owns the records that name none; it may be new. ``scales``: see ``scaled_reader``; ``allow_unread``: also
    files of which a column of a known kind is not read. Raises BadFile, UsageError, RunConflict, Interrupted."""
    module, read = reader(format_name), scaled_reader(format_name, scales)
    if agent is not None and agent.pk is None:
        agent.full_clean()
    files = [file for path in paths for file in _files(module, Path(path))]
    report("stage", {"name": f"checking {files[0].name if len(files) == 1 else f'{len(files):,} files'}"})
    ledger, sample = Ledger(), ImportSample()
    total, records = _read_through(_Files(files, read, allow_unread, ledger, sample), agent)
    report("stage", {"name": "comparing with the database" if dry_run else "writing"})
    store = TraceStore(format_name, agent=agent, dry_run=dry_run)
    store.report.ledger, store.report.sample = ledger, sample
    done = 0
    try:
        for chunk in chunks(records, CHUNK):
            store.take(chunk)
            done += len(chunk)
            reset_queries()  # with DEBUG=1 Django remembers every statement, and each holds hundreds of answers
            report("step", {"step": done, "total_steps": total})
    except KeyboardInterrupt:
        stored = "" if dry_run else "; what was stored stays, and the same command goes on from there"
        raise Interrupted(f"interrupted after {done:,} of {total:,} records{stored}") from None
    return store.report


class _Files(NamedTuple):
    paths: Sequence[Path]
    read: Read
    allow_unread: bool
    ledger: Ledger
    sample: ImportSample

    def records(self) -> Iterator[Record]:
        return chain.from_iterable(map(self._records_of, self.paths))

    def check(self) -> Iterator[Record]:
        """Yields the same, and notes it in the ledger and the sample. Raises BadFile at the end of a file of which a known
        kind of column is not read."""
        for path in self.paths:
            of_file = Ledger()
            for record in self._records_of(path):
                of_file.add(record)
                self.sample.saw(record)
                yield record
            if not self.allow_unread:
                of_file.refuse_unread(path)
            self.ledger.include(of_file)

    def _records_of(self, path: Path) -> Iterator[Record]:
        for record in self.read(path):
            yield replace(record, where=f"{path.name}, {record.where}") if len(self.paths) > 1 else record


def _read_through(files: _Files, agent: Agent | None) -> tuple[int, Iterable[Record]]:
    """How many there are, and all of them, kept or to be read again. Raises BadFile, and UsageError where nobody says whose
    answers these are."""
    owned = _require_owners(files.check(), agent)
    # How much is in a folder or in a packed file shows only when it is read.
    sizes = [
        file.stat().st_size if file.is_file() and file.name.lower().endswith(PLAIN) else SMALL for file in files.paths
    ]
    if sum(sizes) < SMALL:
        kept = [*owned]
        return len(kept), kept
    return sum(1 for _ in owned), files.records()


def _require_owners(records: Iterable[Record], agent: Agent | None) -> Iterator[Record]:
    for record in records:
        if agent is None and not isinstance(record, Rejected) and not record.agent:
            raise UsageError(f"{record.where} names no agent; say with --agent whose answers these are")
        yield record


def _files(module: ModuleType, path: Path) -> list[Path]:
    """The path itself, or what the folder holds. Raises BadFile."""
    suffixes = getattr(module, "SUFFIXES", None)
    if not path.exists():
        raise BadFile(path, "there is no such file or folder")
    refuse_device(path)
    if suffixes is None or not path.is_dir():
        return [path]
    if not (files := list(_below(path, tuple(suffixes)))):
        raise BadFile(path, f"the folder holds no file that ends in {', '.join(suffixes)}")
    return files


def _below(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """In the order of their names. What is hidden is left out, and links are followed no further than the folder."""
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(here, name)
            if name.lower().endswith(suffixes) and not name.startswith(".") and path.is_file():
                with suppress(UsageError):
                    inside(folder, path.absolute())
                    yield path
