"""Between a working process and its row: progress and metrics in, cancel requests and signals out."""

import math
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import psutil
from django.db import transaction

from rl.base.errors import Interrupted, RunConflict
from rl.base.records import Report
from rl.collect.traces.episodes import store_episodes
from rl.environments.episode import PlayedEpisode
from rl.models import MetricPoint, TrainingRun
from rl.serving import machine

PAUSE_POLL_SECONDS = 0.5
PAUSED = "waits while you talk"
"""The stage of a run that makes way for requests."""
FLUSH_SECONDS = 1.0
"""Between two writes: a cancel is seen this late, and a crash loses this much of the chart."""
ECHO = 1.0
"""Seconds within which a second SIGTERM is the first one again."""


class Monitor:
    """A Report that keeps a claimed run's row up to date and passes every event on to the listeners.

    Raises Interrupted when somebody asked the run to stop, and RunConflict when another attempt has taken it over.
    """

    def __init__(self, run: TrainingRun, listeners: Sequence[Report]) -> None:
        self.run, self.listeners = run, listeners
        self.stop_reason = ""
        self._points: dict[int, Mapping[str, float | None]] = {}
        self._flushed = time.monotonic()

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener(event, values)
        if event == "stage":
            self.run.stage = str(values["name"])[:32]
            self.flush()
        elif event == "step":
            self._step(values)
        elif event == "episodes":
            with transaction.atomic():  # nobody takes the run over between the two
                self.flush()
                store_episodes(self.run.agent, map(PlayedEpisode.of_document, values["episodes"]), self.run)
        elif event == "waiting":
            # no sign of life: who waits too long for processes that hang is to be found out
            self.run.refresh_from_db(fields=["cancel_requested"])
            self._heed_cancel()
        self.raise_if_stopped()

    def _step(self, values: dict[str, Any]) -> None:
        if metrics := values.get("metrics"):
            self._points[values["step"]] = metrics
            self.run.step, self.run.total_steps = values["step"], values["total_steps"]
        if time.monotonic() - self._flushed >= FLUSH_SECONDS or values["step"] == values["total_steps"]:
            self.flush()
        if machine.busy() and not self.stop_reason:
            self._make_way()

    def _make_way(self) -> None:
        """Waits for the gateway to be quiet, or for as long as a training can bear; the row goes on beating."""
        began, stage = time.monotonic(), self.run.stage
        self.run.stage = PAUSED
        while machine.busy() and time.monotonic() - began < machine.LONGEST_PAUSE and not self.stop_reason:
            self.flush()
            time.sleep(PAUSE_POLL_SECONDS)
        self.run.stage = stage
        seconds = time.monotonic() - began
        for listener in self.listeners:
            listener("log", {"text": f"paused {seconds:.0f} s for requests"})
            listener("paused", {"seconds": seconds})

    def flush(self) -> None:
        """Writes what has gathered, and reads whether to stop."""
        self._flushed = time.monotonic()
        if not self.run.beat(stage=self.run.stage, step=self.run.step, total_steps=self.run.total_steps):
            raise RunConflict(f"run {self.run.pk} was taken over or ended elsewhere; this process stops")
        points, self._points = self._points, {}
        MetricPoint.objects.bulk_create(
            self._rows(points), update_conflicts=True, unique_fields=["run", "step"], update_fields=["values"]
        )
        self._heed_cancel()

    def _heed_cancel(self) -> None:
        if self.run.cancel_requested and not self.stop_reason:
            self.stop_reason = "cancelled"

    def complete(self, history: Sequence[Mapping[str, float | None]]) -> None:
        """Adds the steps from the first that are in no row: a process that was killed had them in its checkpoint only.
        Later ones are of an imitation that took more steps."""
        self.flush()
        self.run.metric_points.filter(step__gt=len(history)).delete()
        MetricPoint.objects.bulk_create(self._rows(dict(enumerate(history, 1))), ignore_conflicts=True)

    def _rows(self, points: Mapping[int, Mapping[str, float | None]]) -> list[MetricPoint]:
        return [
            MetricPoint(run=self.run, step=step, values={name: _finite(value) for name, value in values.items()})
            for step, values in points.items()
        ]

    def raise_if_stopped(self) -> None:
        if self.stop_reason:
            raise Interrupted(f"run {self.run.pk}: {self.stop_reason}")

    def introduce(self) -> None:
        """Tells the reaper which process works on the run."""
        process = psutil.Process()
        if not self.run.beat(pid=process.pid, pid_started=process.create_time(), host=os.uname().nodename):
            raise RunConflict(f"run {self.run.pk} is not this process's any more")


@contextmanager
def stopped_by_signals(monitor: Monitor) -> Iterator[None]:
    """SIGINT and SIGTERM ask the run to stop at its next step; a second one interrupts at once. A service manager may send
    the first to every process, and the parent hand it on: what comes within ECHO seconds is the same one."""
    asked_at = -math.inf

    def ask(number: int, _: FrameType | None) -> None:
        nonlocal asked_at
        is_echo = number == signal.SIGTERM and time.monotonic() - asked_at < ECHO
        if monitor.stop_reason and not is_echo:
            raise KeyboardInterrupt
        asked_at = time.monotonic()
        monitor.stop_reason = f"stopped by {signal.Signals(number).name}"

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
