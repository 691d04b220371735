"""How much memory a training run needs: what is there all the time, and the largest of what comes one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rl.config import TrainingConfig
from rl.hardware.speed import ModelShape

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
"""Numbers of both models' log-probabilities, their difference and what becomes of it (rl.evaluation.torch.divergence)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """What a training pass holds."""

    sequences: int
    tokens: float
    """In a sequence, as it is padded."""
    answer_tokens: float
    width: int
    """Bytes of a weight and of an activation."""
    kept_bytes: float
    """That the backward pass needs of a layer, a token."""


@dataclass(frozen=True, slots=True)
class Memory:
    parts: Mapping[str, int]

    @property
    def peak(self) -> int:
        lasting = ("runtime", "weights")
        passing = [size for name, size in self.parts.items() if name not in lasting]
        return sum(self.parts[name] for name in lasting) + max(passing)


def parts_of_memory(
    model: ModelShape,
    config: TrainingConfig,
    runtime_bytes: int,
    passes: Passes,
    *,
    four_bit: bool = False,
    copies: int = 0,
    has_answers_read: bool = False,
) -> Memory:
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
    return Memory({name: int(size) for name, size in parts.items()})


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
