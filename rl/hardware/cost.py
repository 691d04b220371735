"""About how long a training run takes, and how much memory it needs: a sum over what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from rl.config import TrainingConfig, find_method
from rl.hardware.detecting import HardwareConfig
from rl.hardware.four_bit import in_4bit
from rl.hardware.memory import Passes, parts_of_memory
from rl.hardware.parts import Seconds, Workload
from rl.hardware.precision import trains_in_bf16
from rl.hardware.speed import RUNTIME_BYTES, ModelShape, Speed, assumed_speed, kept_bytes


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
        peak_memory_bytes=memory.peak,
        parts=parts,
        memory=memory.parts,
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
    return parts_of_memory(model, config, RUNTIME_BYTES, passes).peak
