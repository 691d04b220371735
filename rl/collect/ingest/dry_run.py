"""What a dry run has seen: the database forgets each chunk at once, and a file may name an answer again later.

Kept in a temporary file as hashes, so that a dry run of a million answers takes no more memory than one of a thousand.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from rl.collect.feedback.rating_conflicts import digest_of
from rl.collect.traces.imported import ImportedTrace


class Rehearsal:
    def __init__(self) -> None:
        # An empty name is a file of its own that SQLite removes when the connection goes.
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._file.execute("CREATE TABLE seen (id BLOB PRIMARY KEY, words BLOB, whole BLOB) WITHOUT ROWID")

    def knows(self, agent: str, external_id: str) -> bool:
        return self._look_up(agent, external_id) is not None

    def remember(self, agent: str, record: ImportedTrace) -> None:
        row = (digest_of(agent, record.external_id), _words(record), _whole(record))
        self._file.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", row)

    def verdict(self, agent: str, record: ImportedTrace) -> str:
        """``unchanged``, ``updated``, or ``other`` for other words; empty for an answer that was not seen yet."""
        seen = self._look_up(agent, record.external_id)
        if seen is None:
            return ""
        words, whole = seen
        if words != _words(record):
            return "other"
        return "unchanged" if whole == _whole(record) else "updated"

    def _look_up(self, agent: str, external_id: str) -> tuple[bytes, bytes] | None:
        cursor = self._file.execute("SELECT words, whole FROM seen WHERE id = ?", [digest_of(agent, external_id)])
        row: tuple[bytes, bytes] | None = cursor.fetchone()
        return row


def _words(record: ImportedTrace) -> bytes:
    return digest_of(record.prompt, record.prompt_key, record.response)


def _whole(record: ImportedTrace) -> bytes:
    return digest_of(replace(record, where=""))
