"""MiniMind's checkpoints as what they are: Llama since April 2025 (MiniMind2), and Qwen3 since they normalise queries and
keys (MiniMind-3). Weights have the same names and the same rotary embedding there, so only the configuration is another;
what is saved again is plain Llama or Qwen3.

https://github.com/jingyaogong/minimind, model/model_minimind.py"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from transformers import AutoConfig, LlamaConfig, PretrainedConfig, Qwen3Config

from rl.base.errors import UsageError
from rl.lm.model_path import weight_files

_NEEDED = (
    *("hidden_size", "intermediate_size", "max_position_embeddings", "num_attention_heads"),
    *("num_hidden_layers", "num_key_value_heads", "rms_norm_eps", "vocab_size"),
)
_OPTIONAL = ("hidden_act", "head_dim", "bos_token_id", "eos_token_id", "pad_token_id", "dtype", "torch_dtype")


class MiniMindConfig(PretrainedConfig):
    """Stands in transformers' table for ``model_type: minimind``; none is ever made."""

    model_type = "minimind"

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """A LlamaConfig or a Qwen3Config. Raises UsageError for variants that are neither."""
        folder = Path(kwargs.get("name_or_path") or "")
        values = _values(config_dict, str(folder))
        if not folder.is_dir():
            raise UsageError(f"{folder} is a MiniMind, which cannot be loaded from the hub: download it into a folder")
        # the family: only MiniMind-3 has norms on queries and keys, and only its weights say so
        is_normalised = False
        for file in weight_files(folder):
            with safe_open(folder / file, framework="pt") as weights:
                is_normalised |= any(name.endswith("q_norm.weight") for name in weights.keys())  # noqa: SIM118
        return (Qwen3Config if is_normalised else LlamaConfig).from_dict(values, **kwargs)


def register() -> None:
    """Lets transformers load MiniMind wherever it loads a model."""
    AutoConfig.register(MiniMindConfig.model_type, MiniMindConfig, exist_ok=True)


def _values(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    # variants whose weights or positions have no counterpart in Llama or Qwen3
    if config.get("use_moe"):
        raise UsageError(f"{where} is a MiniMind with experts (use_moe), which cannot be loaded: take a dense one")
    if "n_layers" in config:
        raise UsageError(
            f"{where} is a MiniMind of before April 2025, whose weights are arranged in another way: take a later one"
        )
    if config.get("inference_rope_scaling"):
        raise UsageError(
            f"{where} stretches its context in MiniMind's own way, which cannot be done here: set inference_rope_scaling to "
            "false in its config.json"
        )
    # rotary base: transformers 5 has moved it into rope_parameters
    theta = config.get("rope_theta") or (config.get("rope_parameters") or {}).get("rope_theta")
    needed = {**{name: config.get(name) for name in _NEEDED}, "rope_theta": theta}
    if missing := [name for name, value in needed.items() if value is None]:
        raise UsageError(f"{where}/config.json has no {missing[0]}, without which a MiniMind cannot be loaded")
    values = {name: config[name] for name in (*_NEEDED, *_OPTIONAL) if name in config}
    # MiniMind derives the width of a head; Qwen3's default is a constant of its own
    values.setdefault("head_dim", config["hidden_size"] // config["num_attention_heads"])
    # transformers leaves out of config.json what is its own default, and Llama's default is another
    tied = bool(config.get("tie_word_embeddings", True))
    return {**values, "rope_parameters": {"rope_type": "default", "rope_theta": theta}, "tie_word_embeddings": tied}
