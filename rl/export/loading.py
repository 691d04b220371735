"""Loads what an export starts from: the base model with the adapter folded in, its configuration, its tokenizer.

All of it raises UsageError for a path at which there is no model, and ExportFailed for one that cannot be used.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from rl.errors import ExportFailed
from rl.training.loading import lora_weights, named, put_adapter, read_config, read_model, read_tokenizer, told_as
from rl.training.model_path import check_model_path

_SHARED = re.compile(r"\.(lm_head|embed_tokens|wte)\.lora_")


def load_config(base_model: str) -> Any:
    """The transformers configuration of a model directory or hub id."""
    return read_config(base_model, ExportFailed)


def load_tokenizer(base_model: str, adapter_dir: Path | None) -> Any:
    """The adapter's tokenizer where training saved one (it may have gained a chat template), else the base model's."""
    saved_with_adapter = adapter_dir is not None and (adapter_dir / "tokenizer_config.json").is_file()
    return read_tokenizer(str(adapter_dir) if saved_with_adapter else check_model_path(base_model), ExportFailed)


def load_merged(base_model: str, adapter_dir: Path | None) -> Any:
    """The base model with the adapter folded in: bfloat16 if it is stored so, else float32, which no merge rounds."""
    stored = str(load_config(base_model).dtype).removeprefix("torch.")
    with told_as(ExportFailed, f"cannot load the model of {named(base_model)}"):
        model = read_model(base_model, torch.bfloat16 if stored == "bfloat16" else torch.float32)
    if adapter_dir is None:
        return model
    adapted = put_adapter(model, adapter_dir, ExportFailed)
    if adapted.config.tie_word_embeddings and any(_SHARED.search(name) for name in lora_weights(adapter_dir)):
        raise ExportFailed(
            f"the adapter {adapter_dir} trains lm_head or the embeddings, which are one matrix in {base_model}: "
            "merging would change both"
        )
    with told_as(ExportFailed, f"cannot merge the adapter {adapter_dir} into {base_model}"):
        return adapted.merge_and_unload()


def layer_shapes(config: Any) -> dict[str, tuple[int, int]]:
    """(out, in) of every linear layer by its name, from the configuration alone."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    linear = {name: layer.weight.shape for name, layer in model.named_modules() if isinstance(layer, torch.nn.Linear)}
    conv1d = {name: layer.weight.shape[::-1] for name, layer in model.named_modules() if isinstance(layer, Conv1D)}
    return {name: (shape[0], shape[1]) for name, shape in (linear | conv1d).items()}
