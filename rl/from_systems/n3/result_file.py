"""N3's ``training_results.json``. Exactly N3's names: model_path, reward_model_path, feedback_count, final_reward_mean,
final_reward_std, training_steps, reward_history, kl_history, loss_history.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rl.base.errors import BadFile
from rl.base.files import write_json
from rl.base.outside_files import read_text

FILE = "training_results.json"


@dataclass(frozen=True, slots=True)
class TrainingResult:
    model_path: str
    reward_model_path: str | None
    """None where none was made or named."""
    feedback_count: int
    final_reward_mean: float | None
    """As in ``rl.from_systems.n3.histories``; None where the method rewards nothing."""
    final_reward_std: float | None
    training_steps: int
    reward_history: list[float]
    kl_history: list[float]
    loss_history: list[float]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def save(self, path: Path | str) -> None:
        write_json(Path(path), asdict(self))

    @classmethod
    def load(cls, path: Path | str) -> TrainingResult:
        """Raises BadFile for a file that is not one."""
        try:
            return cls(**json.loads(read_text(Path(path))))
        except (RecursionError, ValueError, TypeError) as error:
            raise BadFile(path, f"is not N3's result of a training ({error})") from error
