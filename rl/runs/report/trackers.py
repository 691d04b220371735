"""Experiment trackers beside Ratchet's own charts: ``--report-to tensorboard,trackio,mlflow,wandb``.

accelerate drives them with the metrics that every method reports, so they see what a run's page shows. Where they send it
is their own setting; TensorBoard writes into the run's folder.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

from rl.base.errors import TrainingFailed

logger = logging.getLogger(__name__)
PROJECT = "ratchet"


@contextmanager
def following(names: Sequence[str], folder: Path, title: str, settings: Mapping[str, Any]) -> Iterator[Trackers]:
    """A Report that the trackers listen to, until the training ends."""
    trackers = Trackers(names, folder, title, settings)
    try:
        yield trackers
    finally:
        trackers.close()


class Trackers:
    """A Report. They are started at the first step, when the trainer has set up its processes."""

    def __init__(self, names: Sequence[str], folder: Path, title: str, settings: Mapping[str, Any]) -> None:
        self._names, self._folder, self._title, self._settings = names, folder, title, settings
        self._started: list[GeneralTracker] = []
        self._step = 0

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        metrics = values.get("metrics")
        if event != "step" or not metrics or values["step"] == self._step:
            return
        if self._step == 0:
            self._start()
        self._step = values["step"]
        finite = {name: value for name, value in metrics.items() if value is not None and math.isfinite(value)}
        for tracker in list(self._started):
            self._log(tracker, finite)

    def close(self) -> None:
        for tracker in self._started:
            tracker.finish()

    def _start(self) -> None:
        """Raises TrainingFailed: what was asked for does not work, and nothing is lost yet."""
        for name in self._names:
            try:
                tracker = LOGGER_TYPE_TO_CLASS[name](**self._arguments(name))
                tracker.start()
                tracker.store_init_configuration(_plain(self._settings))
            except Exception as error:
                raise TrainingFailed(f"--report-to {name} cannot be started: {error}") from error
            self._started.append(tracker)

    def _log(self, tracker: GeneralTracker, metrics: dict[str, float]) -> None:
        """A tracker that breaks on the way is let go: hours of training do not end because its server did."""
        try:
            tracker.log(metrics, step=self._step)
        except Exception:
            logger.exception("%s does not follow the run any more", tracker.name)
            self._started.remove(tracker)

    def _arguments(self, name: str) -> dict[str, Any]:
        if name == "tensorboard":
            return {"run_name": self._title, "logging_dir": str(self._folder / "tensorboard")}
        if name == "mlflow":
            return {"experiment_name": PROJECT, "run_name": self._title}
        return {"run_name": PROJECT, "name": self._title}


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """TensorBoard keeps numbers and texts alone; what is something else becomes JSON."""
    return {
        name: value if isinstance(value, bool | int | float | str) else json.dumps(value)
        for name, value in settings.items()
    }
