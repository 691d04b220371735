"""MiniMind's architecture, written down once more from its description: what its weights mean."""

from typing import Any

import torch
from torch import Tensor

CONFIG: dict[str, Any] = {
    "architectures": ["MiniMindForCausalLM"],
    "auto_map": {
        "AutoConfig": "model_minimind.MiniMindConfig",
        "AutoModelForCausalLM": "model_minimind.MiniMindForCausalLM",
    },
    "model_type": "minimind",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "dropout": 0.0,
    "flash_attn": True,
    "hidden_act": "silu",
    "hidden_size": 32,
    "inference_rope_scaling": False,
    "intermediate_size": 64,
    "max_position_embeddings": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "use_moe": False,
}
"""Of MiniMind2, as transformers 4 writes it: without ``tie_word_embeddings``."""


def random_weights(vocabulary: int, normalised: bool) -> dict[str, Tensor]:
    """``normalised``: with the norms of queries and keys that MiniMind-3 has. The embeddings are the head too."""
    random = torch.Generator().manual_seed(7)
    wide, inner, keys, head = 32, 64, 16, 8

    def matrix(rows: int, columns: int) -> Tensor:
        return 0.15 * torch.randn(rows, columns, generator=random)

    def norm(width: int) -> Tensor:
        return 1 + 0.2 * torch.randn(width, generator=random)

    weights = {"model.embed_tokens.weight": matrix(vocabulary, wide), "model.norm.weight": norm(wide)}
    for layer in range(CONFIG["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        weights |= {
            f"{at}.input_layernorm.weight": norm(wide),
            f"{at}.post_attention_layernorm.weight": norm(wide),
            f"{at}.self_attn.q_proj.weight": matrix(wide, wide),
            f"{at}.self_attn.k_proj.weight": matrix(keys, wide),
            f"{at}.self_attn.v_proj.weight": matrix(keys, wide),
            f"{at}.self_attn.o_proj.weight": matrix(wide, wide),
            f"{at}.mlp.gate_proj.weight": matrix(inner, wide),
            f"{at}.mlp.up_proj.weight": matrix(inner, wide),
            f"{at}.mlp.down_proj.weight": matrix(wide, inner),
        }
        if normalised:
            weights |= {f"{at}.self_attn.{letter}_norm.weight": norm(head) for letter in "qk"}
    return weights


def logits(weights: dict[str, Tensor], ids: Tensor) -> Tensor:
    """(tokens) -> (tokens, vocabulary)."""
    x = weights["model.embed_tokens.weight"][ids]
    for layer in range(CONFIG["num_hidden_layers"]):
        part = {
            name.removeprefix(f"model.layers.{layer}."): weight
            for name, weight in weights.items()
            if name.startswith(f"model.layers.{layer}.")
        }
        x = x + _attention(part, _norm(x, part["input_layernorm.weight"]))
        x = x + _feed_forward(part, _norm(x, part["post_attention_layernorm.weight"]))
    return _norm(x, weights["model.norm.weight"]) @ weights["model.embed_tokens.weight"].T


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + CONFIG["rms_norm_eps"])


def _attention(part: dict[str, Tensor], x: Tensor) -> Tensor:
    """Two query heads share a key and a value."""
    heads = {name: (x @ part[f"self_attn.{name}_proj.weight"].T).unflatten(-1, (-1, 8)) for name in "qkv"}
    for name in "qk":
        if f"self_attn.{name}_norm.weight" in part:
            heads[name] = _norm(heads[name], part[f"self_attn.{name}_norm.weight"])
        heads[name] = _rotate(heads[name])
    q, k, v = heads["q"], heads["k"].repeat_interleave(2, dim=1), heads["v"].repeat_interleave(2, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / 8**0.5
    later = torch.ones(len(x), len(x)).triu(1).bool()
    mixed = torch.einsum("hqk,khd->qhd", scores.masked_fill(later, float("-inf")).softmax(-1), v)
    return mixed.flatten(1) @ part["self_attn.o_proj.weight"].T


def _rotate(x: Tensor) -> Tensor:
    """(tokens, heads, 8): each of the first four with its partner in the second four."""
    speeds = CONFIG["rope_theta"] ** (-torch.arange(0, 8, 2) / 8)
    angles = (torch.arange(len(x))[:, None] * speeds)[:, None]
    first, second = x.chunk(2, dim=-1)
    return torch.cat(
        [first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], dim=-1
    )


def _feed_forward(part: dict[str, Tensor], x: Tensor) -> Tensor:
    gate = torch.nn.functional.silu(x @ part["mlp.gate_proj.weight"].T)
    return (gate * (x @ part["mlp.up_proj.weight"].T)) @ part["mlp.down_proj.weight"].T
