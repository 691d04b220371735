"""Which folder a reward model is in, and whether it is one. Needs no torch."""

from __future__ import annotations

import json
from pathlib import Path

from rl.errors import UsageError
from rl.training.model_path import ADAPTER_CONFIG, check_adapter

TASK = "SEQ_CLS"
"""PEFT's name for a model with a head that classifies, or scores."""


def base_of_reward_model(directory: Path) -> str:
    """Raises UsageError when the directory holds no finished reward model."""
    check_adapter(directory, UsageError)
    try:
        config = json.loads((directory / ADAPTER_CONFIG).read_text(encoding="utf-8"))
        task, base = config["task_type"], str(config["base_model_name_or_path"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{directory / ADAPTER_CONFIG} cannot be read: {error}") from None
    if task != TASK:
        raise UsageError(f"{directory} is no reward model, but an adapter that answers: train one with train_reward_model")
    return base
