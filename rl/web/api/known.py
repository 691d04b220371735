"""Keys and agents as the database had them a moment ago, for calls that come often: a rating would read both each time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from rl.models import Agent, ApiKey
from rl.serving.gateway.table import REFRESH_SECONDS

MOST = 10_000
"""Rows of each kind that a process remembers; when there are more, it forgets all and begins anew."""
Name = TypeVar("Name", bound=Hashable)
Row = TypeVar("Row")


class Known(Generic[Name, Row]):
    """What ``read`` gave for a name, for REFRESH_SECONDS as in the gateway. What was made just now is there at once: that
    there is nothing is not remembered."""

    def __init__(self, read: Callable[[Name], Row | None]) -> None:
        self._read = read
        self._rows: dict[Name, tuple[float, Row]] = {}
        self._lock = threading.Lock()

    def get(self, name: Name) -> Row | None:
        """Raises DatabaseError."""
        now = time.monotonic()
        read_at, row = self._rows.get(name, (0.0, None))
        if row is not None and now - read_at < REFRESH_SECONDS:
            return row
        row = self._read(name)
        with self._lock:
            if len(self._rows) >= MOST:
                self._rows.clear()
            if row is None:
                self._rows.pop(name, None)
            else:
                self._rows[name] = (now, row)
        return row

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()


keys: Known[str, ApiKey] = Known(lambda digest: ApiKey.valid().filter(digest=digest).select_related("agent").first())
"""API keys by their digest."""
agents: Known[int, Agent] = Known(lambda pk: Agent.objects.only("name").filter(pk=pk).first())


def forget() -> None:
    """All, in this process."""
    keys.clear()
    agents.clear()


def find_key(key: str) -> ApiKey | None:
    """Notices within REFRESH_SECONDS that it was revoked, and at once that it expired."""
    row = keys.get(ApiKey.digest_of(key))
    return None if row is None or row.has_expired() else row
