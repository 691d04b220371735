"""Loads what an export starts from: the base model with the adapter folded in, its configuration, its tokenizer.

All of it raises UsageError for a path at which there is no model, and ExportFailed for one that cannot be used."""

import re
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from rl.base.errors import ExportFailed
from rl.lm.loading import lora_weights, put_adapter, read_config, read_model
from rl.lm.model_path import check_model_path
from rl.lm.reading import describe_base, errors_as, read_tokenizer

_SHARED = re.compile(r"\.(lm_head|embed_tokens|wte)\.lora_")


def load_config(base_model: str) -> Any:
    """The transformers configuration of a model directory or hub id; it names the architecture, as saved models do."""
    config = read_config(base_model, ExportFailed)
    if not config.architectures and type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
        config.architectures = [MODEL_FOR_CAUSAL_LM_MAPPING[type(config)].__name__]
    return config


def load_tokenizer(base_model: str, adapter_dir: Path | None) -> Any:
    """The adapter's tokenizer where training saved one (it may have gained a chat template), else the base model's."""
    saved_with_adapter = adapter_dir is not None and (adapter_dir / "tokenizer_config.json").is_file()
    source = str(adapter_dir) if saved_with_adapter else check_model_path(base_model)
    return read_tokenizer(source, ExportFailed)


def skeleton(config: Any, base_model: str) -> PreTrainedModel:
    """The model without weights: its parameters have names and shapes, and take no memory."""
    with errors_as(ExportFailed, f"cannot build the model of {describe_base(base_model)}"), torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    return model


def stored_dtype(config: Any) -> torch.dtype:
    """bfloat16 if the model is stored so, else float32, which no merge rounds."""
    return torch.bfloat16 if str(config.dtype).removeprefix("torch.") == "bfloat16" else torch.float32


def load_merged(base_model: str, adapter_dir: Path | None) -> Any:
    """The base model in memory with the adapter folded in by PEFT, all of it at once."""
    with errors_as(ExportFailed, f"cannot load the model of {describe_base(base_model)}"):
        model = read_model(base_model, stored_dtype(load_config(base_model)))
    if adapter_dir is None:
        return model
    adapted = put_adapter(model, adapter_dir, ExportFailed)
    require_own_matrices(adapted.config, adapter_dir, base_model)
    with errors_as(ExportFailed, f"cannot merge the adapter {adapter_dir} into {base_model}"):
        return adapted.merge_and_unload()


def require_own_matrices(config: Any, adapter_dir: Path, base_model: str) -> None:
    """Raises ExportFailed for an adapter that trains one of two matrices which are the same one."""
    with errors_as(ExportFailed, f"cannot read the adapter {adapter_dir}"):
        names = lora_weights(adapter_dir)
    if config.tie_word_embeddings and any(_SHARED.search(name) for name in names):
        raise ExportFailed(
            f"the adapter {adapter_dir} trains lm_head or the embeddings, which are one matrix in {base_model}: "
            "merging would change both"
        )
