"""About how long a training run takes, and how much memory it needs: a sum over what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from rl.config import TrainingConfig, find_method
from rl.hardware.detecting import HardwareConfig
from rl.hardware.parts import Seconds, Workload
from rl.hardware.precision import in_4bit, trains_in_bf16
from rl.hardware.speed import RUNTIME_BYTES, ModelShape, Speed, assumed_speed, kept_bytes

_4BIT_BYTES = 0.7
"""A weight: half a byte, its block's scale, and the embeddings, which stay as they are."""
_TRAINED_BYTES = 16
"""A weight that is trained, in fp32: itself, its gradient and Adam's two moments."""
_TILE = (4096, 32_768)
"""Tokens and vocabulary of the head's logits that are in memory at once (TRL's fused head)."""
_TILE_COPIES = 5
_SCORED_TOKENS = 4096
"""In one forward pass of scoring."""
_FORWARD_VALUES = 10
"""A token and hidden unit that a forward pass holds, of one layer."""
_HELD = 2
"""Times what a pass keeps: gradients on their way, and pieces that the allocator cannot give back; measured on a CPU."""
_GUARD_LOGITS, _GUARD_COPIES = 2**25, 6
"""Numbers of both models' log-probabilities, their difference and what becomes of it (rl.lm.divergence)."""


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    steps: int
    """Optimiser steps."""
    seconds: float
    peak_memory_bytes: int
    """Most memory that is used on the device that trains: GPU memory where there is a GPU, else RAM."""
    parts: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Name of what the run does to its seconds; their sum is ``seconds``."""
    memory: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """What the memory is for, to bytes; the peak is the sum of the first two and the largest of the rest."""
    measured: bool = False
    """By layers that were timed here, and not by constants of the device's kind."""

    def scale(self, ratios: Mapping[str, float], memory_ratio: float) -> TrainingEstimate:
        """``ratios``: of the parts' seconds; the others stay."""
        parts = {part: seconds * ratios.get(part, 1.0) for part, seconds in self.parts.items()}
        peak = round(self.peak_memory_bytes * memory_ratio)
        return replace(self, parts=parts, seconds=sum(parts.values()), peak_memory_bytes=peak)


def estimate(
    work: Workload,
    model: ModelShape,
    config: TrainingConfig,
    hardware: HardwareConfig,
    method: str = "dpo",
    speed: Speed | None = None,
) -> TrainingEstimate:
    """``speed``: the machine's with this model; else it is assumed from its kind."""
    if work.rows < 0 or work.tokens <= 0:
        raise ValueError(f"{work.rows} rows of {work.tokens} tokens a sequence")
    half = trains_in_bf16(config, hardware)
    speed = speed or assumed_speed(model, hardware, half)
    seconds = Seconds(work, model, config, find_method(method), speed)
    parts = {part.value: value for part, value in seconds.parts().items() if value}
    passes = Passes(
        sequences=config.rows_a_pass * find_method(method).work.sequences,
        tokens=min(work.longest or work.tokens, config.max_length),
        answer_tokens=min(work.answer_tokens, config.max_length),
        width=2 if half else 4,
        kept_bytes=speed.kept_bytes,
    )
    memory = parts_of_memory(
        model,
        config,
        speed.runtime_bytes,
        passes,
        four_bit=in_4bit(config.quantization, hardware),
        copies=find_method(method).work.copies if config.beta else 0,
        has_answers_read=bool(work.asked_prompts),
    )
    return TrainingEstimate(
        steps=config.steps(work.rows),
        seconds=sum(parts.values()),
        peak_memory_bytes=_peak(memory),
        parts=parts,
        memory=memory,
        measured=speed.measured,
    )


def peak_memory(model: ModelShape, config: TrainingConfig, sequences: int, half: bool) -> int:
    """Bytes; ``sequences``: as long as is allowed, in one pass, half of each an answer."""
    longest = int(config.max_length)
    passes = Passes(
        sequences=sequences,
        tokens=longest,
        answer_tokens=longest / 2,
        width=2 if half else 4,
        kept_bytes=kept_bytes(model, half),
    )
    return _peak(parts_of_memory(model, config, RUNTIME_BYTES, passes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    sequences: int
    tokens: float
    """In a sequence, as it is padded."""
    answer_tokens: float
    width: int
    """Bytes of a weight and of an activation."""
    kept_bytes: float
    """That the backward pass needs of a layer, a token."""


def _peak(parts: Mapping[str, int]) -> int:
    lasting = ("runtime", "weights")
    passing = [size for name, size in parts.items() if name not in lasting]
    return sum(parts[name] for name in lasting) + max(passing)


def parts_of_memory(
    model: ModelShape,
    config: TrainingConfig,
    runtime_bytes: int,
    passes: Passes,
    *,
    four_bit: bool = False,
    copies: int = 0,
    has_answers_read: bool = False,
) -> dict[str, int]:
    """Bytes. ``copies``: frozen models beside one whose weights are all trained."""
    weights = (
        _all_weights(model, passes.width, copies) if config.full else _with_adapter(model, config, passes, four_bit)
    )
    answers = passes.answer_tokens / passes.tokens
    parts = {
        "runtime": runtime_bytes,
        "weights": weights,
        "a training pass": _training_pass(model, config, passes),
        "scoring": _SCORED_TOKENS * model.hidden_size * _FORWARD_VALUES * passes.width
        + _tile(model, _SCORED_TOKENS * answers),
        "fresh answers": _GUARD_LOGITS * 4 * _GUARD_COPIES if has_answers_read else 0,
    }
    return {name: int(size) for name, size in parts.items()}


def _training_pass(model: ModelShape, config: TrainingConfig, passes: Passes) -> float:
    layers = min(int(config.train_layers) or model.layers, model.layers)
    # what is recomputed keeps one value a layer beside those of the layer at work
    again = model.hidden_size * passes.width * layers + passes.kept_bytes
    kept = again if config.activation_checkpointing else layers * passes.kept_bytes
    return _HELD * (passes.sequences * passes.tokens * kept + _tile(model, passes.sequences * passes.answer_tokens))


def _tile(model: ModelShape, positions: float) -> float:
    return min(positions, _TILE[0]) * min(model.vocab_size, _TILE[1]) * 4 * _TILE_COPIES


def _all_weights(model: ModelShape, width: int, copies: int) -> int:
    cast = width if width < 4 else 0  # autocast keeps the weights in its own precision for the backward pass
    return model.parameters * (_TRAINED_BYTES + cast + 4 * copies)


def _with_adapter(model: ModelShape, config: TrainingConfig, passes: Passes, four_bit: bool) -> float:
    # r * (inputs + outputs) over the seven linear layers of a block comes to about 20 r * hidden
    layers = min(int(config.train_layers) or model.layers, model.layers)
    adapter = 20 * config.lora_r * model.hidden_size * layers
    return model.parameters * (_4BIT_BYTES if four_bit else passes.width) + _TRAINED_BYTES * adapter
