"""Answers on their way into the database: one small file each, ``DATA_DIR/gateway/pending/<trace id>.json``.

The gateway writes the file before the last byte of the answer leaves, and the database gets it a moment later: whatever
keeps the database busy, the answer flows, and a process that is killed loses none that was finished. Files appear whole
(written under a hidden name and renamed) but are not flushed to the disk: a flush takes milliseconds of each answer, and
what a power cut would take are the last seconds of answers that nobody has rated yet. Delivering is safe to repeat, and
for several processes at once.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DataError, IntegrityError

from rl.files import ABANDONED_SECONDS
from rl.serving.gateway.storing import store

CHUNK = 100
"""Answers per transaction; a longer one would keep people's ratings waiting."""
OWN_FAULT = (DataError, IntegrityError, AttributeError, KeyError, TypeError, ValueError)
"""What a file is to blame for; after any other error it stays for the next time."""
log = logging.getLogger(__name__)
Document = dict[str, Any]


def write(trace_id: UUID, document: Mapping[str, Any]) -> None:
    """Raises OSError."""
    folder = _folder()
    partial = folder / f".{trace_id}.partial"
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    try:
        _write_private(partial, text)
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_private(partial, text)
    partial.replace(_path(trace_id))


def deliver_named(names: Iterable[str]) -> list[str]:
    """Stores those that wait, now. The names may be anything; returns those that can be the gateway's: where nothing waits
    any more, it may have been stored at this moment. Raises DatabaseError."""
    ids = {trace_id: name for name in names if (trace_id := _as_id(name))}
    deliver_these(trace_id for trace_id in ids if _path(trace_id).exists())
    return list(ids.values())


def deliver_all() -> int:
    """Stores all that wait, those of dead processes too; how many that were. Raises DatabaseError."""
    for partial in _folder().glob(".*.partial"):
        with suppress(FileNotFoundError):
            if partial.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                partial.unlink()
    return deliver_these(trace_id for path in _folder().glob("*.json") if (trace_id := _as_id(path.stem)))


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
            return sum(_deliver({trace_id: one}) for trace_id, one in documents.items())
        _set_aside(next(iter(documents)), error)
        return 0
    for trace_id in documents:
        _path(trace_id).unlink(missing_ok=True)
    return len(documents)


def _read(trace_ids: Iterable[UUID]) -> dict[UUID, Document]:
    found: dict[UUID, Document] = {}
    for trace_id in trace_ids:
        try:
            found[trace_id] = json.loads(_path(trace_id).read_bytes())
        except FileNotFoundError:  # another process was first
            continue
        except ValueError as error:
            _set_aside(trace_id, error)
    return found


def _set_aside(trace_id: UUID, error: Exception) -> None:
    path = _path(trace_id)
    log.error("the answer %s cannot be stored (%s); it is set aside as %s.broken", trace_id, type(error).__name__, path)
    with suppress(FileNotFoundError):
        path.rename(path.with_suffix(".json.broken"))


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text)


def _as_id(name: str) -> UUID | None:
    """Only as the gateway writes it: what else ``UUID`` reads, such as braces, is another name."""
    try:
        trace_id = UUID(name)
    except ValueError:
        return None
    return trace_id if str(trace_id) == name else None


def _path(trace_id: UUID) -> Path:
    return _folder() / f"{trace_id}.json"


def _folder() -> Path:
    return settings.DATA_DIR / "gateway" / "pending"
