"""Gemma 2 and the text model of Gemma 3 in GGUF. Every other architecture attends to everything in every layer; here most
layers see a window only, and llama.cpp knows which ones from the architecture alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gguf

from rl.base.errors import ExportFailed

SHIFTED_NORMS = 1.0
"""transformers stores a norm's weight w and multiplies by 1 + w; llama.cpp multiplies by what is stored."""
_ROPE = ("default", "linear")


@dataclass(frozen=True, slots=True)
class GemmaVariant:
    period: int
    """One layer in so many, the last of them, attends to everything."""
    largest: int
    """Layers of the family's largest model, to which llama.cpp gives another attention scale."""
    soft_caps: bool
    """llama.cpp always caps the logits and the attention scores, or never."""


GEMMA2 = GemmaVariant(period=2, largest=46, soft_caps=True)
GEMMA3 = GemmaVariant(period=6, largest=62, soft_caps=False)
_CAPS = ("attn_logit_softcapping", "final_logit_softcapping")


def check_gemma(config: Any, variant: GemmaVariant) -> None:
    """Raises ExportFailed for what llama.cpp would compute differently."""
    name = config.architectures[0]
    layers = config.num_hidden_layers
    if config.layer_types != [_layer_type(number, variant) for number in range(1, layers + 1)]:
        raise ExportFailed(
            f"no GGUF export for {name} with other layer_types than one full_attention in {variant.period} layers"
        )
    if not config.sliding_window:
        raise ExportFailed(f"no GGUF export for {name} without a sliding_window")
    wide = layers == variant.largest
    width = config.hidden_size // config.num_attention_heads if wide else config.head_dim
    if config.query_pre_attn_scalar != width:
        raise ExportFailed(
            f"no GGUF export for {name} with query_pre_attn_scalar={config.query_pre_attn_scalar}; only {width} works"
        )
    for cap in _CAPS:
        if bool(getattr(config, cap)) != variant.soft_caps:
            allowed = "a number above 0" if variant.soft_caps else "null"
            raise ExportFailed(f"no GGUF export for {name} with {cap}={getattr(config, cap)}; only {allowed} works")
    _check_rope(config.rope_parameters, name)


def write_gemma(writer: gguf.GGUFWriter, config: Any) -> None:
    """What only Gemma has."""
    writer.add_sliding_window(config.sliding_window)
    if config.attn_logit_softcapping:
        writer.add_attn_logit_softcapping(float(config.attn_logit_softcapping))
        writer.add_final_logit_softcapping(float(config.final_logit_softcapping))
    if windowed := config.rope_parameters.get("sliding_attention"):
        writer.add_rope_freq_base_swa(float(windowed["rope_theta"]))


def _layer_type(number: int, variant: GemmaVariant) -> str:
    return "sliding_attention" if number % variant.period else "full_attention"


def _check_rope(rope: dict[str, Any], name: str) -> None:
    """Gemma 3 has one for its windowed layers and one for the others, of which only the latter may be scaled."""
    kinds = {where: rope[where]["rope_type"] for where in ("sliding_attention", "full_attention") if where in rope}
    odd = [kind for kind in kinds.values() if kind not in _ROPE] or [rope.get("rope_type", "default")]
    if odd[0] not in _ROPE:
        raise ExportFailed(f"no GGUF export for {name} with the rope scaling {odd[0]!r}; supported: {', '.join(_ROPE)}")
    if kinds.get("sliding_attention", "default") != "default":
        raise ExportFailed(f"no GGUF export for {name} with a rope scaling in its sliding_attention layers")
