"""What a model's config.json says of its size, read before anything heavy is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rl.base.errors import UsageError
from rl.hardware import ModelShape


def model_shape(directory: Path) -> ModelShape | None:
    """From the model's config.json; None when the model is not on this machine yet, or does not tell its size.

    Counts a Llama-like transformer: attention with grouped keys and values, a gated feed-forward, embeddings.
    """
    values = model_config(directory)
    hidden, layers, heads = (
        values.get(name) or values.get(older)
        for name, older in (
            ("hidden_size", "n_embd"),
            ("num_hidden_layers", "n_layer"),
            ("num_attention_heads", "n_head"),
        )
    )
    if not (hidden and layers and heads and values.get("vocab_size")):
        return None
    shared = (values.get("num_key_value_heads") or heads) / heads
    inner = values.get("intermediate_size") or values.get("n_inner") or 4 * hidden
    block = hidden * hidden * (2 + 2 * shared) + 3 * hidden * inner
    tied = bool(values.get("tie_word_embeddings"))
    embeddings = values["vocab_size"] * hidden * (1 if tied else 2)
    return ModelShape(int(layers * block + embeddings), layers, hidden, values["vocab_size"], tied)


def model_config(directory: Path) -> dict[str, Any]:
    """Settings of the language model, out of its config.json; empty when the model is not on this machine."""
    file = directory / "config.json"
    if not file.is_file():
        return {}
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}") from None
    values = values.get("text_config", values) if isinstance(values, dict) else {}
    return values if isinstance(values, dict) else {}
