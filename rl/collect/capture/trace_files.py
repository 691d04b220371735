"""Trace files in folders of their day. Only the label of a file changes once it is there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile, UsageError
from rl.base.slugs import check_slug
from rl.collect.capture.execution_trace import ExecutionTrace
from rl.collect.capture.troubles import Troubles


class TraceFiles:
    def __init__(self, folder: Path, troubles: Troubles) -> None:
        self.folder = folder
        self._troubles = troubles

    def write(self, trace: ExecutionTrace) -> None:
        write_whole(self.folder / trace.timestamp[:10] / f"{trace.trace_id}.json", document(trace.to_dict()))

    def all(self) -> Iterator[ExecutionTrace]:
        """Newest first. A file that is not a trace is left out and logged once."""
        for day in sorted(self.folder.glob("*/"), reverse=True):
            for path in sorted(day.glob("*.json"), key=age, reverse=True):
                try:
                    yield read(path)
                except BadFile as error:
                    self._troubles.once(f"reading:{path}", "%s", error)

    def label(self, trace_id: str, label: bool | None, notes: str) -> ExecutionTrace:
        """Raises UsageError when there is no such trace."""
        check_slug(trace_id, "trace id")
        path = next(self.folder.glob(f"*/{trace_id}.json"), None)
        if path is None:
            raise UsageError(f"there is no trace {trace_id!r} in {self.folder}")
        trace = read(path)
        trace.label, trace.manual_review, trace.review_notes = label, True, notes
        write_whole(path, document(trace.to_dict()))
        return trace


def age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # gone meanwhile
        return 0.0


def read(path: Path) -> ExecutionTrace:
    """Raises BadFile."""
    try:
        return ExecutionTrace.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError, UsageError) as error:
        raise BadFile(path, str(error)) from error


def document(stored: Any) -> bytes:
    return json.dumps(stored, ensure_ascii=False, allow_nan=False).encode("utf-8")


def write_whole(path: Path, content: bytes) -> None:
    """Beside its place, then renamed: a process that is killed leaves no half file. Unlike ``rl.base.files`` it does not
    wait for the disk, which is the agent's, nor look for abandoned files among 100,000 others."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        try:
            partial.write_bytes(content)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(content)
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
