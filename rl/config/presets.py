"""Presets: what differs from a method's own defaults."""

from collections.abc import Mapping
from typing import Any

from rl.base.names import require_known
from rl.config.base import TrainingConfig
from rl.config.methods import find_method

AUTO = "auto"
PRESETS: dict[str, Mapping[str, Any]] = {
    # The method's defaults, and what the rows and the model call for in their place (rl/config/automatic.py).
    AUTO: {},
    "default": {},
    # Half the activations at the same effective batch of 16.
    "small_gpu": {"batch_size": 2, "gradient_accumulation": 8, "activation_checkpointing": True},
    # More capacity and more passes, for when quality matters more than an hour.
    "high_quality": {"epochs": 5.0, "lora_r": 32, "lora_alpha": 64},
    # One pass with a small adapter, to see whether the data teaches anything at all.
    "quick_prototype": {"epochs": 1.0, "lora_r": 8, "lora_alpha": 16, "max_length": 512},
    # Slower and surer: half the learning rate with a longer rise, more capacity, more checkpoints.
    "production": {
        "epochs": 4.0,
        "learning_rate": 2.5e-5,
        "warmup_ratio": 0.15,
        "lora_r": 32,
        "lora_alpha": 64,
        "save_steps": 25,
    },
    # The least memory that still trains: rows two by two (KTO needs two), recomputed activations, short rows, 4 bits.
    "memory_constrained": {
        "batch_size": 2,
        "gradient_accumulation": 8,
        "lora_r": 8,
        "lora_alpha": 16,
        "max_length": 512,
        "activation_checkpointing": True,
        "quantize_base": "auto",
    },
    # Apple's GPU shares its memory with everything else, and not every one has bf16.
    "m1_mac": {
        "batch_size": 2,
        "gradient_accumulation": 8,
        "lora_r": 8,
        "lora_alpha": 16,
        "precision": "fp32",
        "activation_checkpointing": True,
    },
    # Micro-batches of one carry no padding, which on a CPU is pure waste; fp32 because many CPUs emulate bf16.
    "cpu": {"batch_size": 1, "gradient_accumulation": 16, "lora_r": 8, "lora_alpha": 16, "precision": "fp32"},
}


def preset(name: str, method: str = "dpo") -> TrainingConfig:
    """Raises UsageError that lists the known presets, or methods."""
    require_known("preset", name, PRESETS)
    record = find_method(method)
    config = record.config()
    values = {config.OF_PRESETS.get(key, key): value for key, value in PRESETS[name].items()}
    if name == AUTO:
        values["automatic"] = (*record.automatic, *config.automatic)
    return config.with_overrides({key: value for key, value in values.items() if key})
