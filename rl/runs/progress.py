"""Progress for people: a moving bar on a terminal, a line now and then in a log."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LOG_SECONDS = 10.0
"""Time between two lines where no bar can be drawn."""


class ProgressLine:
    """A Report: call it with ``stage``, ``step`` and ``log`` events."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar: Progress | None = None
        self._task: Any = None
        self._stage = ""
        self._logged = 0.0
        self._started = time.monotonic()

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        if event == "stage":
            self.close()
            self._stage, self._logged = str(values["name"]), 0.0
            seconds = time.monotonic() - self._started
            self.console.print(f"· {seconds:6.1f} s  {self._stage}", markup=False, highlight=False)
        elif event == "log":
            self.console.print(f"  {values['text']}", markup=False, highlight=False)
        elif event == "step":
            metrics = values.get("metrics", {})
            shown = ((name, metrics.get(name)) for name in ("loss", "accuracy", "reward"))
            figures = " ".join(f"{name} {value:.3f}" for name, value in shown if value is not None)
            self._step(values["step"], values["total_steps"], figures)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _step(self, step: int, total: int, figures: str) -> None:
        if self.console.is_terminal:
            self._move_bar(step, total, figures)
        elif time.monotonic() - self._logged > LOG_SECONDS or step == total:
            self._logged = time.monotonic()
            self.console.print(f"  {self._stage}: {step}/{total} {figures}".rstrip(), markup=False, highlight=False)

    def _move_bar(self, step: int, total: int, figures: str) -> None:
        if self._bar is None:
            self._bar = Progress(
                TextColumn("  "),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TextColumn("{task.fields[figures]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self.console,
            )
            self._task = self._bar.add_task("", total=total, figures="")
            self._bar.start()
        self._bar.update(self._task, completed=step, total=total, figures=figures)


@contextmanager
def log_file(path: Path) -> Iterator[ProgressLine]:
    """A ProgressLine that appends to a file, and notes there what ended the work early."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", buffering=1) as file:
        console = Console(file=file, soft_wrap=True)
        console.print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", markup=False, highlight=False)
        try:
            yield ProgressLine(console)
        except BaseException as error:
            console.print(f"stopped: {type(error).__name__}: {error}", markup=False, highlight=False)
            raise
