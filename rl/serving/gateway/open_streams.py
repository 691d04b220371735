"""Answers that are still being streamed, from their first byte on: ``DATA_DIR/gateway/pending/<trace id>.open``.

The first line is the document that ``answer_rows.py`` takes; each further line is a piece of the stream, as the client got
it. The process that streams holds a lock on the file. One that nobody has locked is of a process that died: what it said
until then becomes an answer that was broken off. Like those of finished answers, these files are not flushed to the disk.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from rl.base.files import ABANDONED_SECONDS
from rl.base.locks import try_lock
from rl.collect.limits import MAX_WHOLE_NUMBER
from rl.collect.traces.rows import as_id
from rl.serving.gateway.answer import Answer
from rl.serving.gateway.exchange import columns_of, details_of
from rl.serving.gateway.spool import as_line, create, folder, path_of, set_aside, write, write_whole

SUFFIX: Final = ".open"
BROKEN_OFF: Final = "the gateway was ended in mid-answer"
Document = dict[str, Any]


class OpenStreams:
    """The files of one process. Used by one thread."""

    def __init__(self) -> None:
        self._open: dict[UUID, int] = {}

    def begin(self, trace_id: UUID, document: Mapping[str, Any], piece: bytes) -> None:
        """Raises OSError, where somebody streams under this id already too. ``piece``: JSON in one line."""
        path = path_of(trace_id, SUFFIX)
        data = as_line(document) + b"\n" + piece + b"\n"
        # Few calls: after each, this thread waits for a loop that is busy with other streams.
        descriptor = create(path, os.O_EXCL)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            write_whole(descriptor, data)
        except BaseException:
            path.unlink(missing_ok=True)
            os.close(descriptor)
            raise
        self._open[trace_id] = descriptor

    def add(self, trace_id: UUID, pieces: bytes) -> None:
        """Raises OSError. Nothing happens where nothing was begun."""
        if descriptor := self._open.get(trace_id):
            write_whole(descriptor, pieces)

    def end(self, trace_id: UUID, keep: bool = False) -> None:
        """``keep``: for whoever looks for what was broken off."""
        if descriptor := self._open.pop(trace_id, None):
            if not keep:
                path_of(trace_id, SUFFIX).unlink(missing_ok=True)
            os.close(descriptor)


def rescue_all() -> None:
    """Makes answers of what dead processes had begun. Raises OSError."""
    for path in folder().glob(f"*{SUFFIX}"):
        if trace_id := as_id(path.stem):
            rescue(trace_id)


def rescue(trace_id: UUID) -> None:
    """Does nothing where there is no such file, or where somebody still writes it. An answer that was finished, a moment
    before the process died, wins. Raises OSError."""
    path = path_of(trace_id, SUFFIX)
    with suppress(FileNotFoundError), _try_to_lock(path) as is_ours:
        if not is_ours:
            return
        content = path.read_bytes()
        if b"\n" not in content:  # nothing has gone out, and perhaps it is being written at this moment
            if path.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                path.unlink()
            return
        if not path_of(trace_id).exists():
            try:
                write(trace_id, _as_broken_off(content, path.stat().st_mtime))
            except (ValueError, KeyError, TypeError) as error:
                set_aside(path, error)
        path.unlink(missing_ok=True)


def _as_broken_off(content: bytes, ended: float) -> Document:
    """Raises ValueError, KeyError or TypeError for what the gateway has not written."""
    first, *lines = content.splitlines()
    document, answer = json.loads(first), Answer(error=BROKEN_OFF)
    for line in lines:
        with suppress(ValueError):  # the last one may be cut
            answer.take(json.loads(line))
    lasted = ended - datetime.fromisoformat(document["occurred_at"]).timestamp()
    duration_ms = min(max(0, round(lasted * 1000)), MAX_WHOLE_NUMBER)  # a clock may be set
    details = {**document["details"], **details_of(answer)}
    return {**document, **columns_of(answer), "duration_ms": duration_ms, "details": details}


@contextmanager
def _try_to_lock(path: Path) -> Iterator[bool]:
    """Whether nobody else has it, and it is still there. Raises FileNotFoundError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield try_lock(descriptor) and path.exists()
    finally:
        os.close(descriptor)
