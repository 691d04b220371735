"""The metadata of a GGUF file as a transformers configuration."""

from collections.abc import Mapping
from typing import Any, Final

import gguf
import numpy as np
from transformers import (
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from rl.base.errors import UsageError
from rl.base.names import require_known
from rl.export.gguf.architectures import ARCHITECTURES, CAPS, Architecture, GemmaVariant
from rl.export.gguf.rope import llama3_factors

_LOW, _HIGH = 1.0, 4.0
_LLAMA3: Final = {"rope_type": "llama3", "low_freq_factor": _LOW, "high_freq_factor": _HIGH}
"""GGUF keeps the factors that these two and the original context give, and not these."""
_MOST = 2**31 - 1
SPECIAL_TOKENS: Final[Mapping[str, str]] = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
"""By transformers' name, the part of ``tokenizer.ggml.…_token_id``."""
# Backwards, so that of several classes with one GGUF name (Llama, Mistral) the first is taken.
_BY_NAME: Final[Mapping[str, tuple[str, Architecture]]] = {
    architecture.name: (model_class, architecture) for model_class, architecture in reversed(ARCHITECTURES.items())
}


class Metadata:
    """The metadata of one file, by the part of the key behind the architecture's name."""

    def __init__(self, reader: gguf.GGUFReader) -> None:
        self._reader = reader
        self.architecture = str(self.whole("general.architecture"))
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}

    def whole(self, key: str) -> Any:
        """None where the file has no such key."""
        field = self._reader.get_field(key)
        return field.contents() if field else None

    def get(self, key: str, default: Any = None) -> Any:
        value = self.whole(f"{self.architecture}.{key}")
        return default if value is None else value

    def count(self, key: str, default: int | None = None, most: int = _MOST) -> int:
        """A whole number that is not 0. Raises UsageError for what no model has."""
        value = self[key] if default is None else self.get(key, default)
        if not isinstance(value, int | float) or not 1 <= value <= most:
            raise UsageError(f"{self.architecture}.{key} is {str(value)[:50]}, which no model has")
        return int(value)

    def __getitem__(self, key: str) -> Any:
        if (value := self.get(key)) is None:
            raise UsageError(f"the file has no {self.architecture}.{key}")
        return value


def read_architecture(reader: gguf.GGUFReader, name: str = "the file") -> Architecture:
    """Raises UsageError for one that is not exported, and so could not go back; ``name``: of the file, in its words."""
    architecture = Metadata(reader).architecture
    require_known(f"architecture of {name}", architecture, _BY_NAME)
    return _BY_NAME[architecture][1]


def read_config(reader: gguf.GGUFReader) -> PretrainedConfig:
    """Raises UsageError for a key that is missing, and a rope scaling that cannot be told from the file."""
    metadata = Metadata(reader)
    model_class, architecture = _BY_NAME[metadata.architecture]
    values = _read_values(metadata)
    if architecture.gemma:
        values = _read_gemma(metadata, architecture.gemma, values)
    config = _KINDS[metadata.architecture](**values)
    config.architectures = [model_class]
    config.vocab_size = int(metadata.tensors["token_embd.weight"].shape[1])  # GGUF writes the last axis first
    config.tie_word_embeddings = "output.weight" not in metadata.tensors
    for name in ("bos", "eos", "pad"):
        token = metadata.whole(f"tokenizer.ggml.{SPECIAL_TOKENS[name]}_token_id")
        setattr(config, f"{name}_token_id", None if token is None else int(token))
    return config


def _read_values(metadata: Metadata) -> dict[str, Any]:
    heads, width = metadata.count("attention.head_count"), metadata.count("embedding_length")
    common = {
        "hidden_size": width,
        # Each layer has tensors of its own: a file cannot have more layers than tensors.
        "num_hidden_layers": metadata.count("block_count", most=len(metadata.tensors)),
        "num_attention_heads": heads,
        "max_position_embeddings": metadata.count("context_length"),
    }
    inner = metadata.count("feed_forward_length")
    if metadata.architecture == "gpt2":
        return {**common, "n_inner": inner, "layer_norm_epsilon": float(metadata["attention.layer_norm_epsilon"])}
    return {
        **common,
        "intermediate_size": inner,
        "num_key_value_heads": metadata.count("attention.head_count_kv", heads),
        "head_dim": metadata.count("attention.key_length", width // heads),
        "rms_norm_eps": float(metadata["attention.layer_norm_rms_epsilon"]),
        "rope_parameters": _read_rope(metadata),
    }


def _read_gemma(metadata: Metadata, variant: GemmaVariant, values: dict[str, Any]) -> dict[str, Any]:
    """The largest model of a family has another attention scale; llama.cpp knows it by its layers, so it is known here."""
    largest = values["num_hidden_layers"] == variant.largest
    scale = values["hidden_size"] // values["num_attention_heads"] if largest else values["head_dim"]
    values |= {"sliding_window": metadata.count("attention.sliding_window"), "query_pre_attn_scalar": scale}
    if variant.soft_caps:
        return values | {cap: float(metadata[cap]) for cap in CAPS}
    windowed = {"rope_type": "default", "rope_theta": float(metadata.get("rope.freq_base_swa", 10_000.0))}
    return values | {"rope_parameters": {"sliding_attention": windowed, "full_attention": values["rope_parameters"]}}


def _read_rope(metadata: Metadata) -> dict[str, Any]:
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": float(metadata.get("rope.freq_base", 10_000.0))}
    kind = metadata.get("rope.scaling.type", "none")
    if "rope_freqs.weight" in metadata.tensors:
        return _find_llama3_scaling(metadata, rope)
    if kind == "none":
        return rope
    require_known("rope scaling", kind, ("linear", "yarn"))
    rope |= {"rope_type": kind, "factor": float(metadata["rope.scaling.factor"])}
    if kind == "yarn":
        rope["original_max_position_embeddings"] = int(metadata["rope.scaling.original_context_length"])
    return rope


def _find_llama3_scaling(metadata: Metadata, rope: dict[str, Any]) -> dict[str, Any]:
    """From the factors, with Llama 3's own two bounds. Raises UsageError where those do not give the factors again."""
    factors = np.asarray(metadata.tensors["rope_freqs.weight"].data, dtype=np.float64)  # (head_dim / 2,)
    factor = float(factors.max())
    wavelengths = 2 * np.pi * rope["rope_theta"] ** (np.arange(len(factors)) / len(factors))
    # Between the bounds a factor says which context the wavelength is a share of.
    blend = (1 / factors - 1 / factor) / (1 - 1 / factor) if factor > 1 else np.ones_like(factors)
    between = (blend > 1e-6) & (blend < 1 - 1e-6)
    contexts = wavelengths[between] * (blend[between] * (_HIGH - _LOW) + _LOW)
    if len(contexts):
        scaling = {
            **rope,
            **_LLAMA3,
            "factor": factor,
            "original_max_position_embeddings": round(float(np.median(contexts))),
        }
        probe = LlamaConfig(rope_parameters=scaling)
        again = llama3_factors(probe, 2 * len(factors))
        if again is not None and np.allclose(again, factors, rtol=1e-3):
            return scaling
    raise UsageError(
        "the file stretches its rope in a way that its factors do not tell: take the original model's folder"
    )


_KINDS: Final[Mapping[str, type[PretrainedConfig]]] = {
    "llama": LlamaConfig,
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
    "gemma2": Gemma2Config,
    "gemma3": Gemma3TextConfig,
    "gpt2": GPT2Config,
}
