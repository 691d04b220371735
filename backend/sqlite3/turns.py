"""Whose turn it is to write: in one process, that of whoever has waited longest."""

from __future__ import annotations

from collections import deque
from threading import Event, Lock


class Turns:
    def __init__(self) -> None:
        self._lock, self._is_taken = Lock(), False
        self._waiting: deque[Event] = deque()

    def take(self, seconds: float) -> bool:
        """Waits so long at the most. Whoever got True gives the turn back."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            mine = Event()
            self._waiting.append(mine)
        return mine.wait(seconds) or self._leave(mine)

    def give(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False

    def _leave(self, mine: Event) -> bool:
        """Whether it became his turn at the last moment."""
        with self._lock:
            if not mine.is_set():
                self._waiting.remove(mine)
            return mine.is_set()
