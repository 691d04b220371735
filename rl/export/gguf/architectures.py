"""What each supported architecture needs in GGUF: metadata, tensor names, and the tensors that must be rearranged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import gguf
import numpy as np

from rl.base.errors import ExportFailed
from rl.export.gguf.rope import llama3_factors, write_rope
from rl.export.gguf.weights import Array, Checkpoint

SHIFTED_NORMS = 1.0
"""transformers stores a norm's weight w and multiplies by 1 + w; llama.cpp multiplies by what is stored."""
_ROPE = ("default", "linear")


@dataclass(frozen=True, slots=True)
class GemmaVariant:
    """Gemma 2, or the text model of Gemma 3. Every other architecture attends to everything in every layer; here most layers
    see a window only, and llama.cpp knows which ones from the architecture alone."""

    period: int
    """One layer in so many, the last of them, attends to everything."""
    largest: int
    """Layers of the family's largest model, to which llama.cpp gives another attention scale."""
    soft_caps: bool
    """llama.cpp always caps the logits and the attention scores, or never."""


GEMMA2 = GemmaVariant(period=2, largest=46, soft_caps=True)
GEMMA3 = GemmaVariant(period=6, largest=62, soft_caps=False)
CAPS = ("attn_logit_softcapping", "final_logit_softcapping")


def check_gemma(config: Any, variant: GemmaVariant) -> None:
    """Raises ExportFailed for what llama.cpp would compute differently."""
    name = config.architectures[0]
    layers = config.num_hidden_layers
    kinds_of_layers = ("full_attention", "sliding_attention")
    if config.layer_types != [kinds_of_layers[number % variant.period > 0] for number in range(1, layers + 1)]:
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
    for cap in CAPS:
        if bool(getattr(config, cap)) != variant.soft_caps:
            allowed = "a number above 0" if variant.soft_caps else "null"
            raise ExportFailed(f"no GGUF export for {name} with {cap}={getattr(config, cap)}; only {allowed} works")
    # Gemma 3 has one for its windowed layers and one for the others, of which only the latter may be scaled
    rope = config.rope_parameters
    kinds = {where: rope[where]["rope_type"] for where in ("sliding_attention", "full_attention") if where in rope}
    odd = [kind for kind in kinds.values() if kind not in _ROPE] or [rope.get("rope_type", "default")]
    if odd[0] not in _ROPE:
        raise ExportFailed(f"no GGUF export for {name} with the rope scaling {odd[0]!r}; supported: {', '.join(_ROPE)}")
    if kinds.get("sliding_attention", "default") != "default":
        raise ExportFailed(f"no GGUF export for {name} with a rope scaling in its sliding_attention layers")


@dataclass(frozen=True, slots=True)
class Architecture:
    arch: gguf.MODEL_ARCH
    assumed: Mapping[str, Any] = field(default_factory=dict)
    """Config values that llama.cpp's graph takes for granted (a tuple where there are several); others are refused."""
    interleaved_rope: bool = False
    """Query and key rows are reordered: llama.cpp rotates neighbouring pairs here, transformers the two halves."""
    conv1d: bool = False
    """Linear layers are stored as (in, out)."""
    gemma: GemmaVariant | None = None

    @property
    def name(self) -> str:
        return gguf.MODEL_ARCH_NAMES[self.arch]


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """A tensor of the GGUF file; ``load`` reads and rearranges it when its turn comes."""

    name: str
    shape: tuple[int, ...]
    load: Callable[[], Array]


_LLAMA_LIKE = {"hidden_act": "silu"}
_LLAMA = Architecture(gguf.MODEL_ARCH.LLAMA, _LLAMA_LIKE, interleaved_rope=True)
_GPT2_ASSUMED = {
    "activation_function": "gelu_new",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
_GEMMA_LIKE = {
    "hidden_activation": "gelu_pytorch_tanh",
    "attention_bias": False,
    "use_bidirectional_attention": (None, False),
    "tie_word_embeddings": True,
}
ARCHITECTURES: dict[str, Architecture] = {
    "LlamaForCausalLM": _LLAMA,
    "MistralForCausalLM": _LLAMA,
    "Qwen2ForCausalLM": Architecture(gguf.MODEL_ARCH.QWEN2, _LLAMA_LIKE),
    "Qwen3ForCausalLM": Architecture(gguf.MODEL_ARCH.QWEN3, _LLAMA_LIKE | {"attention_bias": False}),
    "Gemma2ForCausalLM": Architecture(gguf.MODEL_ARCH.GEMMA2, _GEMMA_LIKE, gemma=GEMMA2),
    "Gemma3ForCausalLM": Architecture(gguf.MODEL_ARCH.GEMMA3, _GEMMA_LIKE, gemma=GEMMA3),
    "GPT2LMHeadModel": Architecture(gguf.MODEL_ARCH.GPT2, _GPT2_ASSUMED, conv1d=True),
}
_CONV1D_WEIGHTS = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
_BUFFERS = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")
"""Constants that old checkpoints stored beside the weights."""


def find_architecture(config: Any) -> Architecture:
    """Raises ExportFailed for an architecture, or a variant of one, that llama.cpp would run wrongly or not at all."""
    name = (config.architectures or ["none named"])[0]
    if name not in ARCHITECTURES:
        raise ExportFailed(f"no GGUF export for the architecture {name}; supported: {', '.join(ARCHITECTURES)}")
    architecture = ARCHITECTURES[name]
    for key, expected in architecture.assumed.items():
        allowed = expected if isinstance(expected, tuple) else (expected,)
        if getattr(config, key, allowed[0]) not in allowed:
            raise ExportFailed(
                f"no GGUF export for {name} with {key}={getattr(config, key)!r}; only {allowed[-1]!r} works"
            )
    if architecture.gemma:
        check_gemma(config, architecture.gemma)
    return architecture


def head_dim(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def kv_heads(config: Any) -> int:
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def write_hyperparameters(writer: gguf.GGUFWriter, config: Any, architecture: Architecture) -> None:
    writer.add_context_length(_context_length(config, architecture))
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    if architecture.arch is gguf.MODEL_ARCH.GPT2:
        writer.add_feed_forward_length(config.n_inner or 4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_head_count_kv(kv_heads(config))
    writer.add_key_length(head_dim(config))
    writer.add_value_length(head_dim(config))
    write_rope(writer, config, head_dim(config))
    if architecture.gemma:
        writer.add_sliding_window(config.sliding_window)
        if config.attn_logit_softcapping:
            writer.add_attn_logit_softcapping(float(config.attn_logit_softcapping))
            writer.add_final_logit_softcapping(float(config.final_logit_softcapping))
        if windowed := config.rope_parameters.get("sliding_attention"):
            writer.add_rope_freq_base_swa(float(windowed["rope_theta"]))


def gguf_name(architecture: Architecture, config: Any, source: str) -> str:
    """``model.layers.0.mlp.up_proj.weight`` to ``blk.0.ffn_up.weight``. Raises ExportFailed for an unknown tensor."""
    names = _tensor_names(architecture.arch, config.num_hidden_layers)
    if (name := names.get_name(source, try_suffixes=(".weight", ".bias"))) is None:
        raise ExportFailed(f"the tensor {source} has no counterpart in a GGUF file of the kind {architecture.name}")
    return str(name)


@cache
def _tensor_names(arch: gguf.MODEL_ARCH, layers: int) -> gguf.TensorNameMap:
    return gguf.get_tensor_name_map(arch, layers)


def rearrange(values: Array, source: str, architecture: Architecture, config: Any) -> Array:
    """The tensor ``source`` (or the output side of an adapter on it) as llama.cpp wants it."""
    if architecture.conv1d and source.endswith(_CONV1D_WEIGHTS):
        return np.ascontiguousarray(values.T)
    if architecture.gemma and source.endswith("norm.weight"):
        return values + np.float32(SHIFTED_NORMS)
    return reorder_rows(values, source, architecture, config)


def restore(values: Array, source: str, architecture: Architecture, config: Any) -> Array:
    """The way back from ``rearrange``: the tensor of the file as transformers has it under the name ``source``."""
    if architecture.conv1d and source.endswith(_CONV1D_WEIGHTS):
        return np.ascontiguousarray(values.T)
    if architecture.gemma and source.endswith("norm.weight"):
        return values - np.float32(SHIFTED_NORMS)
    if (heads := _interleaved_heads(source, architecture, config)) == 0:
        return values
    pairs = values.reshape(heads, head_dim(config) // 2, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)


def reorder_rows(values: Array, source: str, architecture: Architecture, config: Any) -> Array:
    """Query and key rows from the two halves of each head to interleaved pairs, where the architecture needs it."""
    if (heads := _interleaved_heads(source, architecture, config)) == 0:
        return values
    split = values.reshape(heads, 2, head_dim(config) // 2, *values.shape[1:])
    return np.ascontiguousarray(split.swapaxes(1, 2)).reshape(values.shape)


def _interleaved_heads(source: str, architecture: Architecture, config: Any) -> int:
    """Heads of a query or key projection whose rows llama.cpp has in another order; 0 for every other tensor."""
    module = source.rsplit(".", 2)[-2]
    if not architecture.interleaved_rope or module not in ("q_proj", "k_proj"):
        return 0
    return int(config.num_attention_heads) if module == "q_proj" else kv_heads(config)


def plan_tensors(checkpoint: Checkpoint, architecture: Architecture, config: Any) -> list[PlannedTensor]:
    """Every tensor of the file, in the order of the layers."""
    tied = bool(config.tie_word_embeddings)
    tensors = [
        _plan_tensor(checkpoint, source, architecture, config)
        for source in checkpoint.shapes
        if not source.endswith(_BUFFERS) and not (tied and source == "lm_head.weight")
    ]
    tensors.sort(
        key=lambda tensor: [(int(part), "") if part.isdigit() else (-1, part) for part in tensor.name.split(".")]
    )
    if (factors := llama3_factors(config, head_dim(config))) is not None:
        tensors.insert(0, PlannedTensor("rope_freqs.weight", factors.shape, lambda: factors))
    return tensors


def _plan_tensor(checkpoint: Checkpoint, source: str, architecture: Architecture, config: Any) -> PlannedTensor:
    shape = checkpoint.shapes[source]
    if architecture.conv1d and source.endswith(_CONV1D_WEIGHTS):
        shape = shape[::-1]
    name = gguf_name(architecture, config, source)
    return PlannedTensor(name, shape, lambda: rearrange(checkpoint.read(source), source, architecture, config))


def _context_length(config: Any, architecture: Architecture) -> int:
    """Outside of Gemma llama.cpp attends to everything, which equals a sliding window only within the window."""
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    if architecture.gemma or not window:
        return int(config.max_position_embeddings)
    return int(min(config.max_position_embeddings, window))
