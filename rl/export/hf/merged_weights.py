"""A base model with an adapter folded in, one parameter at a time."""

from __future__ import annotations

from pathlib import Path

import torch

from rl.export.gguf.weights import require_finite
from rl.export.hf.adapter import Adapter
from rl.export.hf.base_weights import BaseWeights


class MergedWeights:
    """``shapes`` of the parameters in the order of transformers; ``obstacle`` says why they have to be merged in memory
    instead, and is empty where they need not.

    Raises ExportFailed for a base or an adapter that is damaged, or for two that do not belong together.
    """

    def __init__(self, base: BaseWeights, adapter_dir: Path | None) -> None:
        self.base = base
        self.obstacle = base.obstacle
        self.adapter: Adapter | None = None
        if adapter_dir is not None and not self.obstacle:
            self.adapter = Adapter(adapter_dir, base.model, base.base_model)
            self.obstacle = self.adapter.special and f"of the adapter: {self.adapter.special}"
        self.shapes = base.shapes
        self.dtype = base.dtype

    def tensor(self, name: str) -> torch.Tensor:
        """In ``dtype``. The sum is computed in float32 and rounded once, to the nearest and ties to even, as PEFT does.

        Raises ExportFailed when a value is not finite.
        """
        weight = self.base.tensor(name)
        update = self.adapter.updates.get(name) if self.adapter else None
        if self.adapter is None or update is None:
            return weight.to(self.dtype)
        merged = (weight.to(self.dtype).to(torch.float32) + self.adapter.delta(update)).to(self.dtype)
        require_finite(merged, f"{name} with its update")
        return merged
