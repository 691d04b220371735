"""What a training made, and how it went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile
from rl.base.files import write_json


@dataclass(frozen=True, slots=True)
class TrainingResult:
    weights_dir: Path
    """The adapter, or the whole model where all weights were trained."""
    steps: int
    final_loss: float
    """Mean training loss over the last tenth of the steps, all attempts together."""
    metrics: dict[str, float]
    """Last logged value of each metric, and ``trainable_parameters``, ``dropped_rows``, ``refused_rows``."""
    seconds: float
    history: tuple[Mapping[str, float | None], ...] = ()
    """Metrics of each step, the first to the last, all attempts together."""
    changed: Mapping[str, Any] = field(default_factory=dict)
    """Hyper-parameters that were not as asked, because the memory was too small for those."""

    def series(self, metric: str) -> list[float]:
        """The values of one metric, from each step where it was logged."""
        return [value for step in self.history if (value := step.get(metric)) is not None]

    @property
    def loss_history(self) -> list[float]:
        return self.series("loss")

    @property
    def reward_history(self) -> list[float]:
        return self.series("reward")

    @property
    def kl_history(self) -> list[float]:
        return self.series("kl")

    def save(self, path: Path | str) -> None:
        """As JSON; what is not finite becomes null."""
        write_json(Path(path), asdict(self))

    @classmethod
    def load(cls, path: Path | str) -> TrainingResult:
        """Raises BadFile for a file that ``save`` did not write."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(**{**values, "weights_dir": Path(values["weights_dir"]), "history": tuple(values["history"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise BadFile(path, f"is not the result of a training ({error})") from error
