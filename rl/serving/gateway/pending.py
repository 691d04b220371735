"""Answers on their way into the database: one small file each, ``DATA_DIR/gateway/pending/<trace id>.json``.

The gateway writes the file before the last byte of the answer leaves (``open_streams.py`` has what streams have said until
then), and the database gets it a moment later: whatever keeps the database busy, the answer flows, and a process that is
killed loses none. Files appear whole but are not flushed to the disk: a flush takes milliseconds of each answer, and what a
power cut would take are the last seconds of answers that nobody has rated yet. Delivering is safe to repeat, and for several
processes at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db import DataError, IntegrityError

from rl.collect.traces.rows import as_id
from rl.serving.gateway import open_streams
from rl.serving.gateway.answer_rows import store
from rl.serving.gateway.spool import folder, path_of, set_aside

_ABANDONED_SECONDS = 600
"""Writing one takes milliseconds: what is half written and older than this was left by a process that was killed."""
CHUNK = 100
"""Answers per transaction; a longer one would keep people's ratings waiting."""
OWN_FAULT = (DataError, IntegrityError, AttributeError, KeyError, TypeError, ValueError)
"""What a file is to blame for; after any other error it stays for the next time."""
Document = dict[str, Any]


def deliver_named(names: Iterable[str]) -> list[str]:
    """Stores those that wait, now. The names may be anything; returns those that can be the gateway's: where nothing waits
    any more, it may have been stored at this moment. Raises DatabaseError and OSError."""
    ids = {trace_id: name for name in names if (trace_id := as_id(name))}
    for trace_id in ids:
        open_streams.rescue(trace_id)
    deliver_these(trace_id for trace_id in ids if path_of(trace_id).exists())
    return list(ids.values())


def deliver_all() -> int:
    """Stores all that wait, those of dead processes too; how many that were. Raises DatabaseError and OSError."""
    for partial in folder().glob(".*.partial"):
        with suppress(FileNotFoundError):
            if partial.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                partial.unlink()
    open_streams.rescue_all()
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
