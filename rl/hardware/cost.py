"""About how long a training run takes, and how much memory it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rl.config import TrainingConfig, find_method
from rl.config.methods import RowWork
from rl.hardware.detecting import GIB, HardwareConfig
from rl.hardware.four_bit import in_4bit

_CPU_CORE_FLOPS = 40e9
"""Sustained fp32 FLOP/s of one core in training: an AVX-512 core multiplies large matrices at 87e9, training gets half."""
_CPU_BF16_GAIN = 1.5
"""Measured on DPO steps, where the CPU has bf16 instructions."""
_GPU_FLOPS = (
    ("B200", 400e12),
    ("H200", 200e12),
    ("H100", 200e12),
    ("A100", 60e12),
    ("L40", 60e12),
    ("RTX 50", 40e12),
    ("RTX 40", 25e12),
    ("A10", 25e12),
    ("RTX 30", 15e12),
    ("L4", 20e12),
    ("T4", 10e12),
    ("", 10e12),
)
"""About a fifth of the data sheet's dense bf16 FLOP/s, by a part of the name, first match; the last is for all others."""
_GPU_FP32_SHARE = 0.25
_4BIT_BYTES = 0.7
"""A weight: half a byte, its block's scale, and the embeddings, which stay as they are."""
_TRAINED_BYTES = 16
"""A weight that is trained, in fp32: itself, its gradient and Adam's two moments."""
_RUNTIME_BYTES = GIB // 2
"""PyTorch itself, loaded."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    parameters: int
    layers: int
    hidden_size: int
    vocab_size: int


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """From constants of the device's class, not from a measurement of the device: right within a factor of 2 to 3."""

    steps: int
    """Optimiser steps."""
    seconds: float
    peak_memory_bytes: int
    """Most memory that is used on the device that trains: GPU memory where there is a GPU, else RAM."""


def estimate(
    rows: int,
    tokens: float,
    model: ModelShape,
    config: TrainingConfig,
    hardware: HardwareConfig,
    method: str = "dpo",
) -> TrainingEstimate:
    """``tokens``: of a prompt with an answer."""
    if rows < 0 or tokens <= 0:
        raise ValueError(f"{rows} rows of {tokens} tokens a sequence")
    work = find_method(method).work
    tokens_a_row = work.sequences * min(tokens, config.max_length)
    steps = config.steps(rows)
    answers = rows * getattr(config, work.answers, 1)
    trained_rows = steps * config.rows_a_step if config.max_steps else answers * config.epochs
    flops = _flops(work, config) * model.parameters * tokens_a_row * trained_rows
    half = _trains_in_bf16(config, hardware)
    in_a_pass = math.ceil(config.rows_a_pass * tokens_a_row)
    return TrainingEstimate(
        steps=steps,
        seconds=flops / _device_flops(hardware, half),
        peak_memory_bytes=peak_memory(
            model,
            config,
            in_a_pass,
            2 if half else 4,
            in_4bit(config.quantization, hardware),
            copies=work.copies if config.beta else 0,
        ),
    )


def _flops(work: RowWork, config: TrainingConfig) -> float:
    again = 2 if config.activation_checkpointing else 0  # the policy's forward pass
    if config.full:
        again += 2 * getattr(config, work.passes, 1)  # a backward pass gives the weights a gradient too
    return work.flops + again + work.flops_a_pass * getattr(config, work.passes, 0)


def _trains_in_bf16(config: TrainingConfig, hardware: HardwareConfig) -> bool:
    return config.precision == "bf16" or (config.precision == "auto" and bool(hardware.gpus))


def _device_flops(hardware: HardwareConfig, half: bool) -> float:
    if hardware.gpus:
        name = hardware.gpus[0].name
        return next(flops for part, flops in _GPU_FLOPS if part in name) * (1 if half else _GPU_FP32_SHARE)
    gain = _CPU_BF16_GAIN if half and hardware.cpu_bf16 else 1
    return _CPU_CORE_FLOPS * min(hardware.physical_cores, hardware.usable_cores) * gain


def peak_memory(
    model: ModelShape, config: TrainingConfig, tokens: int, width: int, four_bit: bool = False, copies: int = 0
) -> int:
    """``tokens``: in one forward pass; ``width``: bytes of a weight and of an activation; ``copies``: frozen models beside
    one whose weights are all trained."""
    # A block keeps about 17 values a token and hidden unit (Korthikanti et al. 2022), or one when it is recomputed.
    values_kept = model.layers + 17 if config.activation_checkpointing else 17 * model.layers
    activations = tokens * model.hidden_size * values_kept * width
    logits = tokens * model.vocab_size * 4 * 3  # fp32: the logits, their log-softmax and its gradient
    weights = _all_weights(model, width, copies) if config.full else _with_adapter(model, config, width, four_bit)
    return weights + activations + logits + _RUNTIME_BYTES


def _all_weights(model: ModelShape, width: int, copies: int) -> int:
    cast = width if width < 4 else 0  # autocast keeps the weights in its own precision for the backward pass
    return model.parameters * (_TRAINED_BYTES + cast + 4 * copies)


def _with_adapter(model: ModelShape, config: TrainingConfig, width: int, four_bit: bool) -> int:
    # r * (inputs + outputs) over the seven linear layers of a block comes to about 20 r * hidden
    adapter = 20 * config.lora_r * model.hidden_size * model.layers
    return int(model.parameters * (_4BIT_BYTES if four_bit else width)) + _TRAINED_BYTES * adapter
