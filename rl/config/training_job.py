"""What a method is given to train on and with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl.base.records import Choosing, Scorer
from rl.config.base import TrainingConfig

LEARNED_ROWS = "learned_rows.json"
"""In ``output_dir``: the first rows as the model sees them."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """All that a training method may know. The rows are JSON lines: ``rl.data_formatter.read_training_rows``."""

    train_rows: Path
    base_model: str
    """A directory, or a hub id."""
    config: TrainingConfig
    output_dir: Path
    """``checkpoint-N/`` folders and the finished ``adapter/`` or ``model/`` are written here, each by rename."""
    resume: bool = False
    """Go on from the newest complete checkpoint in ``output_dir``, if there is one."""
    scorer: Scorer | None = None
    """For methods that generate answers while training."""
    reward_model: Path | None = None
    """The directory of a reward model that scores instead."""
    heldout_rows: Path | None = None
    """For methods that measure themselves."""
    folds: int = 0
    """Parts of the tested prompts that are each answered by an adapter that has not learned from them; 0: none."""
    tested: tuple[str, ...] = ()
    """Their keys."""
    teacher: Path | None = None
    """Weights of the version in use, which answers where its instruction is baked in; None: the base model's."""
    choosing: Choosing | None = None
    """How these answer, where it is from a closed set."""
    schema: Mapping[str, Any] | None = None
    """That their answers keep to, and those that are generated to be rewarded."""
    keep_passes: int = 0
    """After so many of the newest passes, but the last one, the adapter is kept too; 0: after none."""
    eval_prompts: int = 0
    """Held-out prompts that are answered and rewarded on the way, where answers are generated; 0: none."""
    eval_every: int = 0
    """Steps between two such looks; 0: five in all."""
    kind: str = "free"
    """What the accepted answers are: closed, structured or free."""
