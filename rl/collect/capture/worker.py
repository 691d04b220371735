"""A thread that does the work of a bounded queue, so that whoever puts something in never waits.

It survives a fork: the child starts with an empty queue (what was in it is the parent's to deliver) and a thread of its
own."""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

from rl.collect.capture.troubles import Troubles

Item = TypeVar("Item")


class Outcome(NamedTuple, Generic[Item]):
    """What ``work`` leaves: items to try again, first in the queue, and how many seconds from now."""

    again: list[Item]
    wait: float


class Worker(Generic[Item]):
    """``work(batch)`` is called on the thread, ``overflow(item)`` by whoever put one in too many, so it must be quick. It
    also takes the items of a batch whose work raised."""

    def __init__(
        self,
        name: str,
        work: Callable[[list[Item]], Outcome[Item]],
        *,
        batch: Callable[[], int],
        capacity: int,
        overflow: Callable[[Item], None],
        troubles: Troubles,
    ) -> None:
        self._name, self._work, self._batch = name, work, batch
        self._capacity, self._overflow, self._troubles = capacity, overflow, troubles
        self._reset()
        _workers.add(self)

    def put(self, item: Item) -> None:
        oldest: list[Item] = []
        with self._changed:
            self._queue.append(item)
            while len(self._queue) > self._capacity:
                oldest.append(self._queue.popleft())
            self._start()
            self._changed.notify_all()
        for lost in oldest:
            self._overflow(lost)

    def waiting(self) -> int:
        """Items that are not done, the ones at work included."""
        return len(self._queue) + len(self._at_work)

    def flush(self, deadline: float) -> bool:
        """Waits until nothing is left to do; False at the deadline (of ``time.monotonic``)."""
        with self._changed:
            self._hurry = bool(self.waiting())
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self.waiting(), max(deadline - monotonic(), 0))

    def close(self, deadline: float) -> list[Item]:
        """Tries everything once more, then stops. What is left at the deadline; it may still be on its way."""
        with self._changed:
            self._closing = self._hurry = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(deadline - monotonic(), 0))
        with self._changed:
            left = [*self._at_work, *self._queue]
            self._queue.clear()
            return left

    def _reset(self) -> None:
        # A condition's lock is reentrant, which it must be: the garbage collector may close an abandoned generator, and
        # so finish a trace, inside ``put`` itself.
        self._changed = threading.Condition()
        self._queue: deque[Item] = deque()
        self._at_work: list[Item] = []
        self._thread: threading.Thread | None = None
        self._closing = self._hurry = False

    def _start(self) -> None:
        if self._thread is not None or self._closing:
            return
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no threads left, or the interpreter is going down
            self._troubles.log_failure("starting the thread that delivers traces", error)
        else:
            self._thread = thread

    def _run(self) -> None:
        while self._take():
            try:
                outcome = self._work(self._at_work)
            except Exception as error:  # noqa: BLE001  the thread goes on
                self._troubles.log_failure("delivering traces", error)
                for item in self._at_work:
                    self._overflow(item)
                outcome = Outcome([], 0)
            with self._changed:
                self._at_work = []
                self._queue.extendleft(reversed(outcome.again))
                self._changed.notify_all()
                if outcome.wait and self._closing:
                    return
                self._changed.wait_for(lambda: self._hurry, outcome.wait)
                self._hurry = self._closing

    def _take(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            self._at_work = [self._queue.popleft() for _ in range(min(self._batch(), len(self._queue)))]
            return bool(self._at_work)


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


def _forget_the_parent() -> None:
    for worker in list(_workers):
        worker._reset()  # noqa: SLF001  of this file


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_the_parent)
