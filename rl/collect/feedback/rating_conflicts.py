"""Ratings of one rater, trace and moment that contradict each other: one of them counts, and the same one whenever the file
comes again. Written one after the other, each would supersede the one before, anew with every import.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b

from rl.collect.feedback.content import content, say_the_same
from rl.models import Feedback


def agreeing_with_last(ratings: Sequence[Feedback]) -> list[Feedback]:
    """Those that say what the last one of their rater, trace and moment says."""
    moments = [(event.trace_id, event.rater, event.rated_at) for event in ratings]
    last = dict(zip(moments, ratings, strict=True))
    if len(last) == len(ratings):
        return [*ratings]
    return [event for moment, event in zip(moments, ratings, strict=True) if say_the_same(event, last[moment])]


class RatingMemory:
    """The ratings of a long import, whose parts are written before its end is known: of two parts the earlier one counts.

    Kept in a temporary file as hashes, so that an import of a million ratings takes no more memory than one of a thousand.
    """

    def __init__(self) -> None:
        # An empty name is a file of its own that SQLite removes when the connection goes.
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._file.execute("CREATE TABLE rating (moment BLOB PRIMARY KEY, content BLOB) WITHOUT ROWID")

    def agreeing(self, ratings: Sequence[Feedback], now: datetime) -> list[Feedback]:
        """Those that contradict no earlier part. Whatever is said to be of the future is of the moment ``now``."""
        rows = [(_moment(event, now), digest_of(*content(event))) for event in ratings]
        self._file.execute("BEGIN")
        new = self._file.executemany("INSERT OR IGNORE INTO rating VALUES (?, ?)", rows).rowcount
        self._file.execute("COMMIT")
        if new == len(rows):
            return [*ratings]
        return [event for event, row in zip(ratings, rows, strict=True) if self._content_at(row[0]) == row[1]]

    def _content_at(self, moment: bytes) -> bytes:
        stored: bytes = self._file.execute("SELECT content FROM rating WHERE moment = ?", [moment]).fetchone()[0]
        return stored


def _moment(event: Feedback, now: datetime) -> bytes:
    return digest_of(event.trace_id.int, event.rater, event.rated_at.isoformat() if event.rated_at < now else None)


def digest_of(*parts: object) -> bytes:
    """Sixteen bytes."""
    return blake2b(repr(parts).encode(errors="backslashreplace"), digest_size=16).digest()
