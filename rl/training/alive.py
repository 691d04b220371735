"""Signs of life within a step that takes long."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from transformers import Trainer

from rl.base.errors import Interrupted
from rl.base.records import Report
from rl.lm import loading

SECONDS = 1.0
"""Time between two signs of life."""


class Alive:
    """Call it often: at most once a second it reports the step that goes on.

    A report that raises Interrupted has been heard; the step goes on, because a checkpoint within a step would not resume to
    the same numbers, and whoever reports the end of the step is interrupted again.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._trainer: Trainer | None = None
        self._last = time.monotonic()

    def watch(self, trainer: Trainer) -> None:
        """Every pass through the model, each token that is generated among them, is a sign."""
        self._trainer = trainer
        model = trainer.accelerator.unwrap_model(trainer.model)
        base = loading.base_within(model)
        base.register_forward_pre_hook(lambda *arguments: self())

    def __call__(self, *arguments: Any) -> None:
        with suppress(Interrupted):
            self.beat()

    def beat(self) -> None:
        """The same for who can make the step shorter when it is interrupted. Raises what the report raises."""
        if self._trainer is None or time.monotonic() - self._last < SECONDS:
            return
        self._last = time.monotonic()
        state = self._trainer.state
        self._report("step", {"step": state.global_step, "total_steps": state.max_steps, "metrics": {}})
