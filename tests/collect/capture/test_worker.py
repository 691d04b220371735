import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from rl.collect.capture.troubles import Troubles
from rl.collect.capture.worker import Outcome, Worker


class Work:
    """Of a thread that can be held and let go, and told to fail."""

    def __init__(self, capacity: int = 5) -> None:
        self.go, self.begun = threading.Event(), threading.Event()
        self.done: list[int] = []
        self.lost: list[int] = []
        self.outcomes: list[Outcome[int]] = []
        self.worker = Worker(
            "test", self.work, batch=lambda: 1, capacity=capacity, overflow=self.lost.append, troubles=Troubles()
        )

    def work(self, batch: list[int]) -> Outcome[int]:
        self.begun.set()
        self.go.wait(60)
        if self.outcomes:
            return self.outcomes.pop(0)
        if batch == [13]:
            raise RuntimeError
        self.done += batch
        return Outcome([], 0)


@pytest.fixture
def work() -> Iterator[Work]:
    work = Work()
    yield work
    work.go.set()
    work.worker.close(time.monotonic() + 1)


def soon(seconds: float = 10) -> float:
    return time.monotonic() + seconds


def test_more_than_fits_pushes_the_oldest_out_without_waiting(work: Work):
    work.worker.put(0)
    assert work.begun.wait(60)
    for number in range(1, 106):
        work.worker.put(number)
    assert work.lost == list(range(1, 101))
    assert not work.worker.flush(soon(0.02))
    work.go.set()
    assert work.worker.flush(soon())
    assert work.done == [0, 101, 102, 103, 104, 105]


def test_work_that_raises_does_not_end_the_thread(work: Work):
    work.go.set()
    for number in (13, 14):
        work.worker.put(number)
    assert work.worker.flush(soon())
    assert (work.done, work.lost) == ([14], [13])


def test_what_comes_again_comes_first_and_a_flush_does_not_wait_for_it(work: Work):
    work.outcomes = [Outcome([1], 3600)]
    for number in (1, 2):
        work.worker.put(number)
    work.go.set()
    assert work.worker.flush(soon())
    assert work.done == [1, 2]


def test_closing_tries_once_and_gives_back_the_rest(work: Work):
    work.outcomes = [Outcome([1], 3600), Outcome([1], 3600)]
    for number in (1, 2):
        work.worker.put(number)
    work.go.set()
    assert work.worker.close(soon()) == [1, 2]
    assert len(work.outcomes) < 2


def test_closing_does_not_wait_for_work_that_hangs(work: Work):
    work.worker.put(1)
    work.worker.put(2)
    assert work.begun.wait(60)
    assert work.worker.close(soon(0.05)) == [1, 2]


def test_what_is_put_in_may_finish_a_trace_itself(work: Work):
    """As the garbage collector does, which may close an abandoned generator at any moment, also within ``put``."""
    put = Worker.put.__code__

    def collect(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_return" and frame.f_code is put and function.__name__ == "append":
            work.worker.put(1)  # while ``put`` holds its lock

    def put_observed() -> None:
        sys.setprofile(collect)
        work.worker.put(2)
        sys.setprofile(None)

    thread = threading.Thread(target=put_observed, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    work.go.set()
    assert work.worker.flush(soon())
    assert work.done == [2, 1]
