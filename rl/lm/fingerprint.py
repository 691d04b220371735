"""A model's fingerprint: the same for the same weights and settings, wherever they lie and whatever they are wrapped in."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import Any, Final

import torch
import transformers
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor
from transformers import PreTrainedModel

from rl.lm.loading import base_within
from rl.lm.token_tree.sharing import shares_tokens

_NO_MATTER: Final = {"_name_or_path", "use_cache", "transformers_version"}
"""In a configuration: what the numbers do not depend on."""


def fingerprint(model: torch.nn.Module, autocast: torch.dtype | None) -> str:
    """In hexadecimal digits: of all that decides which numbers a pass of the model gives, to rounding. An adapter that is
    turned off does not belong to it. Reads all weights."""
    base = base_within(model)
    live = _live_adapters(model)
    digest = sha256()
    about = {
        "model": type(base).__name__,
        "config": {name: value for name, value in base.config.to_dict().items() if name not in _NO_MATTER},
        "adapters": live,
        "autocast": str(autocast),
        "device": base.device.type,
        "libraries": [torch.__version__, transformers.__version__],
        "tree": shares_tokens(base),
    }
    digest.update(json.dumps(about, sort_keys=True, default=_in_order).encode())
    for name, tensor in _weights(base, live):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]


def _weights(base: PreTrainedModel, live: Collection[str]) -> Iterator[tuple[str, Tensor]]:
    """By their names without an adapter, in order; tied ones once."""
    plain = {
        name.replace(".base_layer", ""): tensor
        for name, tensor in base.state_dict().items()
        if isinstance(tensor, Tensor) and _counts(name, live)
    }
    seen: set[tuple[int, torch.Size]] = set()
    for name, tensor in sorted(plain.items()):
        memory = (tensor.data_ptr(), tensor.shape)
        if memory not in seen:
            seen.add(memory)
            yield name, tensor


def _live_adapters(model: torch.nn.Module) -> dict[str, Any]:
    """Names of those that take part in a pass, to their settings."""
    if not isinstance(model, PeftModel):
        return {}
    layers = [layer for layer in model.modules() if isinstance(layer, BaseTunerLayer)]
    live = {name for layer in layers if not layer.disable_adapters for name in layer.active_adapters}
    return {name: config.to_dict() for name, config in model.peft_config.items() if name in live}


def _in_order(value: Any) -> Any:
    """For JSON: a set has another order in each process."""
    return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)


def _counts(name: str, live: Collection[str]) -> bool:
    """Whether a weight takes part: LoRA's stand under the name of their adapter."""
    return ".lora_" not in name or any(f".{adapter}." in f"{name}." for adapter in live)
