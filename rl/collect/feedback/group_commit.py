"""Group commit: what waits at the same time is written by one of those who wait, in one transaction.

A commit waits for the disk, whether it holds one row or fifty. The first that comes leads: it writes what waits, itself
included, and answers everyone. What comes meanwhile waits, and its first leads the next group; so nobody waits longer than
for two commits, and one that comes alone waits for nobody."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from django.db import connection

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class _Waiting(Generic[Item, Result]):
    item: Item
    outcome: list[Result | BaseException] = field(default_factory=list)
    """Empty until its group is written."""
    woken: threading.Event = field(default_factory=threading.Event)


class GroupCommit(Generic[Item, Result]):
    """``commit`` takes items and returns, once they are durable, an outcome for each: a result, or the exception that is
    raised for this one alone. What it raises itself is raised for all. ``most`` limits a group."""

    def __init__(self, commit: Callable[[Sequence[Item]], Sequence[Result | BaseException]], most: int) -> None:
        self._commit = commit
        self._most = most
        self._queue: deque[_Waiting[Item, Result]] = deque()
        self._lock = threading.Lock()
        self._is_led = False

    def submit(self, item: Item) -> Result:
        """Inside a transaction of the caller's it is written there and at once: nobody else could lead it."""
        if connection.in_atomic_block:
            return result_of(self._commit([item])[0])
        own: _Waiting[Item, Result] = _Waiting(item)
        with self._lock:
            self._queue.append(own)
            leads, self._is_led = not self._is_led, True
        if not leads:
            own.woken.wait()
        if not own.outcome:
            with self._lock:
                group = [self._queue.popleft() for _ in range(min(self._most, len(self._queue)))]
            outcomes: Sequence[Result | BaseException] = [RuntimeError("the group was not written")] * len(group)
            try:
                outcomes = self._commit([waiting.item for waiting in group])
            except Exception as error:  # noqa: BLE001  each of those who wait raises it
                outcomes = [error] * len(group)
            finally:
                for waiting, outcome in zip(group, outcomes, strict=True):
                    waiting.outcome.append(outcome)
                    waiting.woken.set()
                with self._lock:
                    self._is_led = bool(self._queue)
                    if self._queue:
                        self._queue[0].woken.set()
        return result_of(own.outcome[0])


def result_of(outcome: Result | BaseException) -> Result:
    """Raises the outcome where it is an exception."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
