"""Which GGUF type each tensor gets at each level.

The levels below q8_0 follow the mixtures of llama.cpp's ``llama-quantize`` (MIT licence) for dense models, so that a file
made here equals one made there: the tensors that hurt most when rounded get more bits."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gguf import GGML_QUANT_SIZES, LlamaFileType
from gguf import GGMLQuantizationType as Type

from rl.config.levels import PLAIN_LEVELS

_SMALLER_BLOCK = {
    Type.Q2_K: Type.Q4_0,
    Type.Q3_K: Type.Q4_0,
    Type.Q4_K: Type.Q5_0,
    Type.Q5_K: Type.Q5_1,
    Type.Q6_K: Type.Q8_0,
}
"""For rows whose width is not a multiple of the 256 values in a k-quant block."""
_UNQUANTISED = ("_norm.weight", "position_embd.weight")
_SMALL = (
    *("ffn_gate_inp", "altup", "laurel", "per_layer_model_proj", "token_types"),
    *("ssm_conv1d", "shortconv.conv", "time_mix_", "attn_rel_b"),
)
"""Matrices of other architectures than ours that are too small, or too delicate, to be rounded."""
_LAYER = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Mixture:
    level: str
    layers: int
    heads_per_kv_head: int
    output: str
    """The tensor that makes the logits: ``output.weight``, or ``token_embd.weight`` when it doubles as it."""

    @property
    def file_type(self) -> LlamaFileType:
        exact = self.level == "f32"
        return LlamaFileType.ALL_F32 if exact else LlamaFileType[f"MOSTLY_{self.level.upper()}"]

    def rounds(self, name: str) -> bool:
        """Whether a tensor of any architecture is for this level to decide about."""
        return name.endswith(".weight") and not any(part in name for part in _SMALL)

    def type_of(self, name: str, shape: tuple[int, ...]) -> Type:
        if len(shape) < 2 or name.endswith(_UNQUANTISED):
            return Type.F32
        wanted = self._choose_type(name)
        for kind in (wanted, _SMALLER_BLOCK.get(wanted, Type.F16)):
            if shape[-1] % GGML_QUANT_SIZES[kind][0] == 0:
                return kind
        return Type.F16

    def _choose_type(self, name: str) -> Type:
        base = Type["_".join(self.level.split("_")[:2]).upper()]  # q4_k_m and q4_k_s: Q4_K
        if self.level in PLAIN_LEVELS:
            return base
        if name == self.output:
            return Type.Q6_K
        match = _LAYER.match(name)
        layer = int(match.group(1)) if match else 0
        if name.endswith(("attn_v.weight", "attn_qkv.weight", "ffn_down.weight")):
            return self._choose_delicate(base, layer, is_value="attn" in name)
        if name.endswith("attn_output.weight"):
            return {"q2_k": Type.Q3_K, "q3_k_m": Type.Q4_K, "q3_k_l": Type.Q5_K}.get(self.level, base)
        return base

    def _choose_delicate(self, base: Type, layer: int, *, is_value: bool) -> Type:
        """For the values of the attention, and for what leads out of the feed-forward layer."""
        eighth = self.layers // 8
        match self.level:
            case "q2_k":
                return Type.Q4_K if is_value and self.heads_per_kv_head >= 4 else Type.Q3_K
            case "q3_k_m":
                return Type.Q5_K if layer < (2 if is_value else self.layers // 16) else Type.Q4_K
            case "q3_k_l":
                return Type.Q5_K
            case "q4_k_s":
                return Type.Q5_K if layer < (4 if is_value else eighth) else base
            case "q4_k_m" | "q5_k_m":  # the first and the last eighth of the layers, and every third between
                more = layer < eighth or layer >= 7 * self.layers // 8 or (layer - eighth) % 3 == 2
                return Type.Q6_K if more else base
        return base


def describe_replaced(level: str, counts: Mapping[str, int]) -> str:
    """A warning where most matrices are too narrow for the level's blocks; empty otherwise. ``counts``: of tensors, by the
    name of their type."""
    if "_k" not in level:
        return ""
    replaced = sum(counts.get(kind.name, 0) for kind in {*_SMALLER_BLOCK.values(), Type.F16})
    matrices = sum(count for name, count in counts.items() if name != Type.F32.name)
    if replaced * 2 <= matrices:
        return ""
    return (
        f"{replaced} of {matrices} matrices are too narrow for the blocks of {level} and have another type: the file is "
        "larger and less exact than its level says; q8_0 suits this model better"
    )


def byte_size(kind: Type, shape: tuple[int, ...]) -> int:
    block, block_bytes = GGML_QUANT_SIZES[kind]
    return math.prod(shape) // block * block_bytes
