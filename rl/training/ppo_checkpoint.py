"""Where a PPO training stands, between two batches, and its way to disk and back.

A checkpoint is a folder like those of the transformers trainer (``checkpoints``), so that the same code finds the newest
whole one: the policy's adapter at its top, the value's in ``value/`` with its head beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peft import set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import Optimizer

from rl.errors import TrainingFailed
from rl.files import publish_directory
from rl.training import checkpoints, loading
from rl.training.model_path import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from rl.training.ppo_math import KLController
from rl.training.ppo_networks import POLICY, VALUE, Networks

_HEAD = "value_head.safetensors"
_OPTIMIZER, _RANDOM = "optimizer.pt", "rng_state.pth"
_FILES = (f"{VALUE}/{ADAPTER_WEIGHTS}", f"{VALUE}/{ADAPTER_CONFIG}", _HEAD)


@dataclass(slots=True)
class Progress:
    """All that changes from batch to batch beside weights and random numbers."""

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

    def save(self, progress: Progress, random: Mapping[str, Tensor]) -> Path:
        """The folder appears whole or not at all."""
        unfinished = self.scratch / f"checkpoint-{progress.step}"
        self.networks.model.save_pretrained(unfinished, selected_adapters=[POLICY, VALUE], save_embedding_layers=False)
        save_file({name: of.contiguous() for name, of in self.networks.head.state_dict().items()}, unfinished / _HEAD)
        torch.save(self.optimizer.state_dict(), unfinished / _OPTIMIZER)
        torch.save(dict(random), unfinished / _RANDOM)
        (unfinished / checkpoints.STATE).write_text(json.dumps(_state(progress)), encoding="utf-8")
        final = self.output_dir / unfinished.name
        publish_directory(unfinished, final)
        checkpoints.remove_old(self.output_dir)
        return final

    def load(self, path: Path, progress: Progress) -> None:
        """Weights, optimiser, random numbers and ``progress`` become those of the checkpoint."""
        with loading.told_as(TrainingFailed, f"the checkpoint {path} does not fit this training"):
            self._load(path, progress)

    def _load(self, path: Path, progress: Progress) -> None:
        model, device = self.networks.model, str(self.networks.head.weight.device)
        for adapter, folder in ((POLICY, path), (VALUE, path / VALUE)):
            weights = load_file(folder / ADAPTER_WEIGHTS, device=device)
            set_peft_model_state_dict(model, weights, adapter_name=adapter)
        self.networks.head.load_state_dict(load_file(path / _HEAD, device=device))
        self.optimizer.load_state_dict(torch.load(path / _OPTIMIZER, weights_only=True, map_location=device))
        state = json.loads((path / checkpoints.STATE).read_text(encoding="utf-8"))
        progress.step, progress.diverging = state["global_step"], state["diverging"]
        progress.log, progress.controller.coefficient = state["log_history"], state["kl_coef"]
        set_random_state(torch.load(path / _RANDOM, weights_only=True))


def _state(progress: Progress) -> dict[str, Any]:
    return {
        "global_step": progress.step,
        "kl_coef": progress.controller.coefficient,
        "diverging": progress.diverging,
        "log_history": progress.log,
        checkpoints.FILES_KEY: _FILES,
    }


def random_state() -> dict[str, Tensor]:
    """Of the generators that generation and shuffling draw from."""
    state = {"cpu": torch.get_rng_state()}
    if torch.accelerator.is_available():
        state["device"] = torch.get_device_module().get_rng_state()
    return state


def set_random_state(state: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(state["cpu"])
    if "device" in state and torch.accelerator.is_available():
        torch.get_device_module().set_rng_state(state["device"])
