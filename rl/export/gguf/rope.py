"""Rotary position embeddings in GGUF: the base, and the scaling of models stretched to longer contexts."""

import math
from typing import Any

import gguf
import numpy as np

from rl.base.errors import ExportFailed
from rl.export.gguf.weights import Array

_SUPPORTED = ("default", "linear", "yarn", "llama3")
_YARN_KNOWN = {"rope_type", "type", "rope_theta", "factor", "original_max_position_embeddings", "partial_rotary_factor"}


def write_rope(writer: gguf.GGUFWriter, config: Any, head_dim: int) -> None:
    """Raises ExportFailed for a scaling that GGUF cannot express."""
    rope = _parameters(config)
    kind = rope["rope_type"]
    if kind not in _SUPPORTED:
        raise ExportFailed(f"no GGUF export for the rope scaling {kind!r}; supported: {', '.join(_SUPPORTED)}")
    if (share := rope.get("partial_rotary_factor", 1.0)) not in (None, 1.0):
        raise ExportFailed(f"no GGUF export for a model that rotates only {share:g} of each head")
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(float(rope["rope_theta"]))
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(float(rope["factor"]))
    if kind == "yarn":
        # llama.cpp computes YaRN's default ramp and attention factor itself
        if odd := sorted(key for key in set(rope) - _YARN_KNOWN if rope[key] is not None):
            raise ExportFailed(f"no GGUF export for YaRN rope scaling with {', '.join(odd)} set")
        original = rope.get("original_max_position_embeddings") or config.max_position_embeddings
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(float(rope["factor"]))
        writer.add_rope_scaling_orig_ctx_len(int(original))


def llama3_factors(config: Any, head_dim: int) -> Array | None:
    """What llama.cpp divides each frequency by, shape (head_dim / 2,); None without Llama 3's scaling. Wavelengths below
    ``original / high_freq_factor`` positions stay, those above ``original / low_freq_factor`` are stretched by ``factor``,
    and those between are blended."""
    rope = _parameters(config)
    if rope["rope_type"] != "llama3":
        return None
    low, high, factor = (float(rope[key]) for key in ("low_freq_factor", "high_freq_factor", "factor"))
    exponents = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
    wavelengths = 2 * math.pi * float(rope["rope_theta"]) ** exponents
    blend = np.clip((rope["original_max_position_embeddings"] / wavelengths - low) / (high - low), 0, 1)
    return (1 / ((1 - blend) / factor + blend)).astype(np.float32)


def _parameters(config: Any) -> dict[str, Any]:
    """transformers keeps them under ``rope_parameters``; architectures without rotary embeddings have none. Where there are
    two, for windowed layers and for the others, they are the others'."""
    parameters = getattr(config, "rope_parameters", None) or {}
    return {"rope_type": "default", **parameters.get("full_attention", parameters)}
