"""Answers on their way into the database: one small file each, ``DATA_DIR/gateway/pending/<trace id>.json``.

The gateway writes the file before the last byte of the answer leaves, and the database gets it a moment later: whatever
keeps the database busy, the answer flows, and a process that is killed loses none. Files appear whole but are not flushed to
the disk: a flush takes milliseconds of each answer, and what a power cut would take are the last seconds of answers that
nobody has rated yet. Delivering is safe to repeat, and for several processes at once.

What is still being streamed stands in ``<trace id>.open``, from its first byte on. The first line is the document that
``answer_rows.py`` takes; each further line is a piece of the stream, as the client got it. The process that streams holds a
lock on the file. One that nobody has locked is of a process that died: what it said becomes an answer that was broken off.
"""

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import DataError, IntegrityError

from rl.base.answer_ids import as_id
from rl.base.files import ABANDONED_SECONDS, descriptor_of
from rl.base.locks import try_lock
from rl.collect.limits import MAX_WHOLE_NUMBER
from rl.serving.gateway.answer import Answer
from rl.serving.gateway.answer_rows import store
from rl.serving.gateway.exchange import columns_of, details_of

FINISHED: Final = ".json"
log = logging.getLogger(__name__)
SUFFIX: Final = ".open"
BROKEN_OFF: Final = "the gateway was ended in mid-answer"
_ABANDONED_SECONDS = 600
"""Writing one takes milliseconds: what is half written and older than this was left by a process that was killed."""
CHUNK = 100
"""Answers per transaction; a longer one would keep people's ratings waiting."""
OWN_FAULT = (DataError, IntegrityError, AttributeError, KeyError, TypeError, ValueError)
"""What a file is to blame for; after any other error it stays for the next time."""
Document = dict[str, Any]


def folder() -> Path:
    return settings.DATA_DIR / "gateway" / "pending"


def path_of(trace_id: UUID, suffix: str = FINISHED) -> Path:
    return folder() / f"{trace_id}{suffix}"


def write(trace_id: UUID, document: Mapping[str, Any]) -> None:
    """Raises OSError, and leaves nothing behind then."""
    partial = folder() / f".{trace_id}.partial"
    descriptor = create(partial)
    try:
        write_whole(descriptor, as_line(document))
        partial.replace(path_of(trace_id))
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def as_line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def write_whole(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def set_aside(path: Path, error: Exception) -> None:
    """A file that cannot be stored; a person looks at it."""
    log.error("the answer in %s cannot be stored (%s); it is set aside as *.broken", path, type(error).__name__)
    with suppress(FileNotFoundError):
        path.rename(path.with_name(f"{path.name}.broken"))


def create(path: Path, more_flags: int = 0) -> int:
    """A new file of our own, open. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | more_flags
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(path, flags, 0o600)


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
                first, *lines = content.splitlines()
                document, answer = json.loads(first), Answer(error=BROKEN_OFF)
                for line in lines:
                    with suppress(ValueError):  # the last one may be cut
                        answer.take(json.loads(line))
                lasted = path.stat().st_mtime - datetime.fromisoformat(document["occurred_at"]).timestamp()
                duration_ms = min(max(0, round(lasted * 1000)), MAX_WHOLE_NUMBER)  # a clock may be set
                details = {**document["details"], **details_of(answer)}
                write(trace_id, {**document, **columns_of(answer), "duration_ms": duration_ms, "details": details})
            except (ValueError, KeyError, TypeError) as error:
                set_aside(path, error)
        path.unlink(missing_ok=True)


@contextmanager
def _try_to_lock(path: Path) -> Iterator[bool]:
    """Whether nobody else has it, and it is still there. Raises FileNotFoundError."""
    with descriptor_of(path) as descriptor:
        yield try_lock(descriptor) and path.exists()


def deliver_named(names: Iterable[str]) -> list[str]:
    """Stores those that wait, now. The names may be anything; returns those that can be the gateway's: where nothing waits
    any more, it may have been stored at this moment. Raises DatabaseError and OSError."""
    ids = {trace_id: name for name in names if (trace_id := as_id(name))}
    for trace_id in ids:
        rescue(trace_id)
    deliver_these(trace_id for trace_id in ids if path_of(trace_id).exists())
    return list(ids.values())


def deliver_all() -> int:
    """Stores all that wait, those of dead processes too; how many that were. Raises DatabaseError and OSError."""
    for partial in folder().glob(".*.partial"):
        with suppress(FileNotFoundError):
            if partial.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                partial.unlink()
    rescue_all()
    return deliver_these(trace_id for path in folder().glob("*.json") if (trace_id := as_id(path.stem)))


def deliver_these(trace_ids: Iterable[UUID]) -> int:
    """Stores those of them that wait. Raises DatabaseError; those of the chunks before it are stored then."""
    ids = list(dict.fromkeys(trace_ids))
    return sum(_deliver(_read(ids[at : at + CHUNK])) for at in range(0, len(ids), CHUNK))


def _deliver(documents: dict[UUID, Document]) -> int:
    if not documents:
        return 0
    try:
        store(documents)
    except OWN_FAULT as error:
        if len(documents) > 1:
            return sum(_deliver({trace_id: document}) for trace_id, document in documents.items())
        set_aside(path_of(next(iter(documents))), error)
        return 0
    for trace_id in documents:
        path_of(trace_id).unlink(missing_ok=True)
    return len(documents)


def _read(trace_ids: Iterable[UUID]) -> dict[UUID, Document]:
    documents: dict[UUID, Document] = {}
    for trace_id in trace_ids:
        try:
            documents[trace_id] = json.loads(path_of(trace_id).read_bytes())
        except FileNotFoundError:  # another process was first
            continue
        except ValueError as error:
            set_aside(path_of(trace_id), error)
    return documents
