"""Where a PPO training stands, between two batches, and its way to disk and back.

A checkpoint is a folder like those of the transformers trainer (``checkpoints``), so that the same code finds the newest
whole one: the policy's adapter or whole model at its top, the value's adapter in ``value/`` with its head beside it.
There are no random numbers in it: each batch begins with its own seed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peft import set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from torch.optim import Optimizer

from rl.base.errors import TrainingFailed
from rl.base.files import publish_directory
from rl.lm import checkpoints, loading, processes
from rl.lm.model_path import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from rl.training.ppo.math import KLController
from rl.training.ppo.networks import POLICY, VALUE, Networks

_HEAD = "value_head.safetensors"
_OPTIMIZER = "optimizer.pt"
_FILES = (f"{VALUE}/{ADAPTER_WEIGHTS}", f"{VALUE}/{ADAPTER_CONFIG}", _HEAD)


@dataclass(slots=True)
class Progress:
    """All that changes from batch to batch beside weights."""

    controller: KLController
    step: int = 0
    """Batches that were learned from."""
    diverging: int = 0
    """Batches in a row whose divergence was far too large."""
    log: list[dict[str, float]] = field(default_factory=list)
    """The metrics of each batch."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    networks: Networks
    optimizer: Optimizer
    output_dir: Path
    scratch: Path

    def save(self, progress: Progress) -> None:
        """The folder appears whole or not at all. All processes come here, and the first one writes."""
        if processes.is_first():
            self._save(progress)
        processes.wait()

    def _save(self, progress: Progress) -> None:
        unfinished = self.scratch / f"checkpoint-{progress.step}"
        adapters = list(self.networks.shared.peft_config)
        self.networks.shared.save_pretrained(unfinished, selected_adapters=adapters, save_embedding_layers=False)
        if POLICY not in adapters:
            self.networks.policy.save_pretrained(unfinished, max_shard_size=loading.SHARD)
        save_file({name: of.contiguous() for name, of in self.networks.head.state_dict().items()}, unfinished / _HEAD)
        torch.save(self.optimizer.state_dict(), unfinished / _OPTIMIZER)
        (unfinished / checkpoints.STATE).write_text(json.dumps(_state(progress)), encoding="utf-8")
        publish_directory(unfinished, self.output_dir / unfinished.name)
        checkpoints.remove_old(self.output_dir)

    def load(self, path: Path, progress: Progress) -> None:
        """Weights, optimiser and ``progress`` become those of the checkpoint."""
        with loading.errors_as(TrainingFailed, f"the checkpoint {path} does not fit this training"):
            self._load(path, progress)

    def _load(self, path: Path, progress: Progress) -> None:
        shared, policy, device = self.networks.shared, self.networks.policy, str(self.networks.head.weight.device)
        for adapter in shared.peft_config:
            file = (path / VALUE if adapter == VALUE else path) / ADAPTER_WEIGHTS
            set_peft_model_state_dict(shared, load_file(file, device=device), adapter_name=adapter)
        if policy is not shared:
            policy.load_state_dict(type(policy).from_pretrained(path, use_safetensors=True).state_dict())
        self.networks.head.load_state_dict(load_file(path / _HEAD, device=device))
        self.optimizer.load_state_dict(torch.load(path / _OPTIMIZER, weights_only=True, map_location=device))
        state = json.loads((path / checkpoints.STATE).read_text(encoding="utf-8"))
        progress.step, progress.diverging = state["global_step"], state["diverging"]
        progress.log, progress.controller.coefficient = state["log_history"], state["kl_coef"]


def _state(progress: Progress) -> dict[str, Any]:
    return {
        "global_step": progress.step,
        "kl_coef": progress.controller.coefficient,
        "diverging": progress.diverging,
        "log_history": progress.log,
        checkpoints.FILES_KEY: _FILES,
    }
