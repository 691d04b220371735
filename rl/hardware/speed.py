"""How fast a machine works with a model: measured there, or else assumed from its kind."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from rl.hardware.detecting import HardwareConfig

_CPU_CORE_FLOPS = 20e9
"""Sustained fp32 FLOP/s of one core in training, measured with AVX2; one with AVX-512 does twice that."""
_AVX512_GAIN = 2
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
_GENERATING = {True: 0.02, False: 0.5}
"""Share of that speed at which answers are generated, one token of each after the other; on a GPU, and on a CPU."""
_START_SECONDS = 10.0
RUNTIME_BYTES = 800_000_000
"""PyTorch and the libraries over it, loaded."""
_KEPT_VALUES = 20
"""A token and hidden unit that a layer keeps for its backward pass, with an adapter on each of its linear layers."""
_TEMPLATE_TOKENS = 16
TIMED_TOKENS = 128
"""Tokens of a text that is timed."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    parameters: int
    layers: int
    hidden_size: int
    vocab_size: int
    tied: bool = True
    """The head has the weights of the embeddings."""

    @property
    def layer(self) -> int:
        """Parameters of one layer."""
        return max(0, self.parameters - self.head * (1 if self.tied else 2)) // self.layers

    @property
    def head(self) -> int:
        """Parameters of the head."""
        return self.vocab_size * self.hidden_size

    def layer_flops(self, tokens: float) -> float:
        """For a token of a text of so many, in a forward pass: the weights, and the causal half of the attention."""
        return 2 * self.layer + 2 * tokens * self.hidden_size


@dataclass(frozen=True, slots=True)
class Speed:
    """With one model; seconds on all threads that a training takes."""

    forward: float
    """Seconds a token and layer of a forward pass, in texts of TIMED_TOKENS."""
    training: float
    """The same forward and backward, with an adapter."""
    generation: float
    """The same for a token that is generated, several answers at once."""
    head: float
    """Seconds a token whose next one is predicted, over the whole vocabulary."""
    head_training: float
    start: float
    """Seconds until the libraries that train are loaded."""
    kept_bytes: float
    """Memory that the backward pass needs, a token and layer."""
    runtime_bytes: int
    """Memory that they take, before there is a model."""
    prompt_tokens: int
    """Tokens that the model's chat template adds to a question, its own system prompt among them."""
    system_tokens: int
    """The same where the chat has a system prompt of its own."""
    measured: bool
    """Here, and not assumed."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Raises ValueError for what is not a speed."""
        names = [field.name for field in fields(cls)]
        if not isinstance(values, dict) or set(values) != set(names):
            raise ValueError(f"a speed has {', '.join(names)}")
        if not all(isinstance(value, (int, float)) and value > 0 for value in values.values()):
            raise ValueError("a speed is made of numbers above zero")
        return cls(**values)


def assumed_speed(model: ModelShape, hardware: HardwareConfig, half: bool) -> Speed:
    """From constants of the device's kind. ``half``: it trains in bf16."""
    flops = _device_flops(hardware, half)
    layer, head = model.layer_flops(TIMED_TOKENS) / flops, 2 * model.head / flops
    return Speed(
        forward=layer,
        training=2 * layer,
        generation=layer / _GENERATING[bool(hardware.gpus)],
        head=head,
        head_training=2 * head,
        start=_START_SECONDS,
        kept_bytes=kept_bytes(model, half),
        runtime_bytes=RUNTIME_BYTES,
        prompt_tokens=_TEMPLATE_TOKENS,
        system_tokens=_TEMPLATE_TOKENS,
        measured=False,
    )


def kept_bytes(model: ModelShape, half: bool) -> float:
    """A token and layer, assumed."""
    return _KEPT_VALUES * model.hidden_size * (2 if half else 4)


def _device_flops(hardware: HardwareConfig, half: bool) -> float:
    if hardware.gpus:
        name = hardware.gpus[0].name
        return next(flops for part, flops in _GPU_FLOPS if part in name) * (1 if half else _GPU_FP32_SHARE)
    gain = (_AVX512_GAIN if hardware.cpu_avx512 else 1) * (_CPU_BF16_GAIN if half and hardware.cpu_bf16 else 1)
    return _CPU_CORE_FLOPS * min(hardware.physical_cores, max(1, hardware.usable_cores - 1)) * gain
