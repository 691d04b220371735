"""How many answers are right on the way, to a few prompts that an adapter does not learn from.

They are asked at a quarter, a half and three quarters of the steps, the same ones each time; the last point is that of the
finished adapter, which answers all of its part anyway. The points of all parts together are kept in the run's folder, so
that a resumed run has them too, and are drawn along the run's own training at the same share of its steps.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rl.base.files import write_json

SHARES: Final = (0.25, 0.5, 0.75, 1.0)
"""Points of a training, as shares of its steps."""
MOST_ASKED: Final = 24
"""Prompts, those of all parts together: asking costs about as much as a step of training each time."""
FILE: Final = "right.json"
_WORDS: Final = {0.25: "a quarter of the steps", 0.5: "a half", 0.75: "three quarters", 1.0: "the end"}


class Curve:
    """Right answers by share of the steps, of the parts that are done."""

    def __init__(self, folder: Path, *, goes_on: bool) -> None:
        self._file = folder / FILE
        stored = json.loads(self._file.read_text(encoding="utf-8")) if goes_on and self._file.is_file() else {}
        self.asked = int(stored.get("asked", 0))
        self.right = Counter({float(share): int(number) for share, number in stored.get("right", {}).items()})

    def add(self, asked: int, right: Counter[float]) -> None:
        self.asked += asked
        self.right += right
        write_json(self._file, {"asked": self.asked, "right": {str(share): self.right[share] for share in SHARES}})

    def at_steps(self, steps: int) -> dict[int, float]:
        """Share of the answers that are right, by step of a training of so many."""
        return {step_at(share, steps): self.right[share] / self.asked for share in SHARES if self.asked}

    def describe(self) -> str:
        """For people."""
        points = ", ".join(f"{self.right[share]} at {_WORDS[share]}" for share in SHARES)
        return f"right answers to {self.asked} prompts, each by an adapter that does not learn from it: {points}"


class Asking(TrainerCallback):
    """Asks on the way; ``right`` has no point of the end."""

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask = ask
        self.right: Counter[float] = Counter()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        due = [share for share in SHARES[:-1] if state.global_step == step_at(share, state.max_steps)]
        if due:
            self.right.update(dict.fromkeys(due, self._ask()))


def step_at(share: float, steps: int) -> int:
    return max(1, math.ceil(share * steps))
