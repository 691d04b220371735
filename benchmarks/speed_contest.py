"""Ways to do the same work, timed in turns in one process, so that a busy moment of the machine hits all of them alike."""

from __future__ import annotations

import math
import resource
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop

EPOCHS: Final = 3
"""Over which what is done once a run is spread."""


@dataclass
class Way:
    """``step``: one pass and its loss, of the batch with this number. ``once_cpu`` and ``once_wall``: seconds of work that
    belongs to ``once_batches`` batches and is done once a run. ``most``: passes that it can make. ``part``: of a pass that a
    step makes, for ways whose time is known to grow with their work; seconds are those of the whole pass. ``count``: a step
    and its loss, with the floating point operations of its matrix products."""

    name: str
    step: Callable[[int], float]
    once_cpu: float = 0.0
    once_wall: float = 0.0
    once_batches: int = 1
    most: int = 1_000
    part: float = 1.0
    count: Callable[[int], tuple[float, int]] | None = None
    operations: int = 0
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def take(self, number: int) -> None:
        cpu, wall = cpu_seconds(), time.perf_counter()
        self.losses.append(self.step(number))
        self.cpu.append((cpu_seconds() - cpu) / self.part)
        self.wall.append((time.perf_counter() - wall) / self.part)

    def warm_up(self, number: int) -> None:
        """A pass that is not timed."""
        loss, self.operations = (self.count or self._count)(number)
        self.losses.append(loss)

    def _count(self, number: int) -> tuple[float, int]:
        with product_counter() as counter:
            loss = self.step(number)
        return loss, int(counter.get_total_flops())

    @property
    def gflops(self) -> float:
        """Billions of operations of products a CPU second of a pass; 0 where they were not counted."""
        return self.operations / self.part / statistics.median(self.cpu) / 1e9

    def seconds(self, of: Sequence[float], once: float) -> float:
        """Of a batch and epoch, the median."""
        return statistics.median(of) + once / self.once_batches / EPOCHS


class Turns:
    """A loop in a thread of its own that goes on by one step each time it is asked to. It stands before its first step once
    this is made: what trainers set up is of the whole process, and only one may be at it."""

    def __init__(self, loop: Callable[[Turns], None]) -> None:
        self._asked, self._made, self._ready = threading.Semaphore(0), threading.Semaphore(0), threading.Event()
        self._failure: BaseException | None = None
        self._loss = 0.0
        self._counter: FlopCounterMode | None = None
        self._thread = threading.Thread(target=self._run, args=(loop,), daemon=True)
        self._thread.start()
        self._ready.wait()

    def __enter__(self) -> Turns:
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        """Waits for the end of the loop, which it comes to only where all of its steps were asked for."""
        if kind is None:
            self._thread.join()

    def _run(self, loop: Callable[[Turns], None]) -> None:
        try:
            loop(self)
        except BaseException as error:  # noqa: BLE001  handed on to whoever waits
            self._failure = error
        finally:
            self._ready.set()
            self._made.release()

    def wait(self) -> None:
        """Called by the loop before a step."""
        self._ready.set()
        self._asked.acquire()
        if self._counter:
            self._counter.__enter__()

    def hand_over(self, loss: float) -> None:
        """Called by the loop after a step."""
        if self._counter:
            self._counter.__exit__(None, None, None)
        self._loss = loss
        self._made.release()

    def step(self, number: int) -> float:
        self._asked.release()
        self._made.acquire()
        if self._failure:
            raise self._failure
        return self._loss

    def count(self, number: int) -> tuple[float, int]:
        """A step whose products are counted: counters are of a thread."""
        self._counter = counter = product_counter()
        loss, self._counter = self.step(number), None
        return loss, int(counter.get_total_flops())


def product_counter() -> FlopCounterMode:
    """Knows attention and packed layers on a CPU too."""
    attention: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    packed: Any = torch.ops.mkldnn._linear_pointwise
    return FlopCounterMode(display=False, custom_mapping={attention: _count_attention, packed: _count_packed})


def _count_attention(query: Any, key: Any, value: Any, *others: Any, out_shape: Any = None, **named: Any) -> int:
    """All are shapes."""
    return int(sdpa_flop(query, key, value))


def _count_packed(states: Any, weights: Any, *others: Any, out_shape: Any = None, **named: Any) -> int:
    """All are shapes: (…, I) and (…, O)."""
    return int(2 * math.prod(states) * out_shape[-1])


def cpu_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def time_once(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, and its CPU and wall seconds."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    result = work()
    return result, cpu_seconds() - cpu, time.perf_counter() - wall


def compete(
    ways: Sequence[Way], rounds: int, report: Callable[[str], None], *, warm: bool = False
) -> list[dict[str, Any]]:
    """A row of figures for each way, against the first: how many times faster, and how far its losses are. ``warm``: a pass
    that is not timed comes first, so that ways need one more than ``rounds``. A single round has none: it is about losses.
    """
    first = int(warm and rounds > 1)
    for way in ways[: len(ways) * first]:
        if way.most > 1:
            way.warm_up(0)
            report(f"  {way.name}: warm")
    for number in range(rounds):
        for way in (way for way in ways if number < way.most):
            way.take(number + first * (way.most > 1))
            report(f"  {way.name}: {way.cpu[-1]:.2f} s CPU, loss {way.losses[-1]:.6f}")
    return [_row(way, ways[0]) for way in ways]


def _row(way: Way, first: Way) -> dict[str, Any]:
    cpu, wall = way.seconds(way.cpu, way.once_cpu), way.seconds(way.wall, way.once_wall)
    once = way.once_cpu / way.once_batches / EPOCHS
    return {
        "way": way.name,
        "cpu_seconds": round(cpu, 3),
        "cpu_range": [round(min(way.cpu) + once, 3), round(max(way.cpu) + once, 3)],
        "wall_seconds": round(wall, 3),
        "faster_cpu": round(first.seconds(first.cpu, first.once_cpu) / cpu, 2),
        "faster_wall": round(first.seconds(first.wall, first.once_wall) / wall, 2),
        "gflops": round(way.gflops, 1),
        "loss_difference": _difference(way.losses, first.losses),
    }


def _difference(losses: Sequence[float], others: Sequence[float]) -> float:
    """The largest between the same batches. Trainers may read these in different orders, all of them or, in order, fewer."""
    if len(losses) == len(others):
        losses, others = sorted(losses), sorted(others)
    return max(abs(a - b) for a, b in zip(losses, others, strict=False))
