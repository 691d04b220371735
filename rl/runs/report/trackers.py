"""Experiment trackers beside Ratchet's own charts: ``--report-to tensorboard,trackio,mlflow,wandb``.

accelerate drives them with the metrics that every method reports, so they see what a run's page shows. Where they send it
is their own setting; TensorBoard writes into the run's folder.
"""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

from rl.base.errors import TrainingFailed

logger = logging.getLogger(__name__)
PROJECT = "ratchet"


class Trackers:
    """A Report. They are started at the first step, when the trainer has set up its processes."""

    def __init__(
        self, names: Sequence[str], folder: Path, listed: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> None:
        """``listed``: under which ``name``, and where they are not the usual ones ``project`` and ``tags``."""
        self._names, self._folder, self._settings = names, folder, settings
        self._project, self._title = listed.get("project") or PROJECT, listed["name"]
        self._tags = {"tags": listed["tags"]} if listed.get("tags") else {}
        self._started: list[GeneralTracker] = []
        self._step = 0
        self._sent: set[str] = set()
        """Metrics of that step: what is measured behind it comes later."""

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        if event != "step" or not values.get("metrics"):
            return
        if self._step == 0:
            self._start()
        if values["step"] != self._step:
            self._step, self._sent = values["step"], set()
        metrics = {name: value for name, value in values["metrics"].items() if name not in self._sent}
        self._sent |= metrics.keys()
        finite = {name: value for name, value in metrics.items() if value is not None and math.isfinite(value)}
        if not finite:
            return
        for tracker in list(self._started):
            try:
                tracker.log(finite, step=self._step)
            except Exception:  # hours of training do not end because the server of a tracker did
                logger.exception("%s does not follow the run any more", tracker.name)
                self._started.remove(tracker)

    def close(self) -> None:
        for tracker in self._started:
            tracker.finish()

    def _start(self) -> None:
        """Raises TrainingFailed: what was asked for does not work, and nothing is lost yet."""
        # TensorBoard keeps numbers and texts alone: what is something else becomes JSON
        plain = {
            name: value if isinstance(value, bool | int | float | str) else json.dumps(value)
            for name, value in self._settings.items()
        }
        for name in self._names:
            try:
                tracker = LOGGER_TYPE_TO_CLASS[name](**self._arguments(name))
                tracker.start()
                tracker.store_init_configuration(plain)
            except Exception as error:
                raise TrainingFailed(f"--report-to {name} cannot be started: {error}") from error
            self._started.append(tracker)

    def _arguments(self, name: str) -> dict[str, Any]:
        if name == "tensorboard":
            return {"run_name": self._title, "logging_dir": str(self._folder / "tensorboard")}
        if name == "mlflow":
            return {"experiment_name": self._project, "run_name": self._title}
        return {"run_name": self._project, "name": self._title, **(self._tags if name == "wandb" else {})}
