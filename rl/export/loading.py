"""Loads what an export starts from: the base model, the tokenizer, the adapter. Weights come from safetensors only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.pytorch_utils import Conv1D

from rl.errors import ExportFailed, TrainingFailed, UsageError
from rl.training.model_path import check_model_path

_SHARED = re.compile(r"\.(lm_head|embed_tokens|wte)\.lora_")
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")


def check_base_model(name: str) -> str:
    """The directory or hub id to load. Raises UsageError for a path at which there is no model."""
    try:
        return check_model_path(name)
    except TrainingFailed as error:
        raise UsageError(str(error)) from error


def check_adapter(directory: Path) -> Path:
    """Raises ExportFailed when ``directory`` is no finished PEFT adapter."""
    if missing := [name for name in _ADAPTER_FILES if not (directory / name).is_file()]:
        raise ExportFailed(f"{directory} is not a finished adapter: it has no {' and no '.join(missing)}")
    return directory


def load_config(base_model: str) -> Any:
    """The transformers configuration of a model directory or hub id."""
    with _as_export_failure(f"cannot read the configuration of {base_model}"):
        return AutoConfig.from_pretrained(check_base_model(base_model), trust_remote_code=False)


def load_tokenizer(base_model: str, adapter_dir: Path | None) -> Any:
    """The adapter's tokenizer where training saved one (it may have gained a chat template), else the base model's."""
    saved_with_adapter = adapter_dir is not None and (adapter_dir / "tokenizer_config.json").is_file()
    source = str(adapter_dir) if saved_with_adapter else check_base_model(base_model)
    with _as_export_failure(f"cannot load the tokenizer of {source}"):
        return AutoTokenizer.from_pretrained(source, trust_remote_code=False)


def load_merged(base_model: str, adapter_dir: Path | None) -> Any:
    """The base model with the adapter folded in: bfloat16 if it is stored so, else float32, which no merge rounds."""
    stored = str(load_config(base_model).dtype).removeprefix("torch.")
    dtype = torch.bfloat16 if stored == "bfloat16" else torch.float32
    with _as_export_failure(f"cannot load the model {base_model}"):
        model = AutoModelForCausalLM.from_pretrained(
            check_base_model(base_model), dtype=dtype, use_safetensors=True, trust_remote_code=False
        )
    if adapter_dir is None:
        return model
    check_adapter(adapter_dir)
    with _as_export_failure(f"cannot merge the adapter {adapter_dir} into {base_model}"):
        adapted = PeftModel.from_pretrained(model, str(adapter_dir))
        _check_fit(adapted, adapter_dir, base_model)
        return adapted.merge_and_unload()


def layer_shapes(config: Any) -> dict[str, tuple[int, int]]:
    """(out, in) of every linear layer by its name, from the configuration alone."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    linear = {name: layer.weight.shape for name, layer in model.named_modules() if isinstance(layer, torch.nn.Linear)}
    conv1d = {name: layer.weight.shape[::-1] for name, layer in model.named_modules() if isinstance(layer, Conv1D)}
    return {name: (shape[0], shape[1]) for name, shape in (linear | conv1d).items()}


def _check_fit(adapted: PeftModel, adapter_dir: Path, base_model: str) -> None:
    """PEFT only warns about adapter weights that the model has no place for, and would merge nothing for them."""
    with safe_open(adapter_dir / "adapter_model.safetensors", framework="pt") as file:
        stored = {name for name in file.keys() if ".lora_" in name}  # noqa: SIM118 - not a mapping
    expected = {name for name in get_peft_model_state_dict(adapted, save_embedding_layers=False) if ".lora_" in name}
    if stray := sorted(stored ^ expected):
        raise ExportFailed(
            f"the adapter {adapter_dir} was not trained on {base_model}: {len(stray)} weights do not match, "
            f"the first is {stray[0]}"
        )
    if adapted.config.tie_word_embeddings and any(_SHARED.search(name) for name in stored):
        raise ExportFailed(
            f"the adapter {adapter_dir} trains lm_head or the embeddings, which are one matrix in {base_model}: "
            "merging would change both"
        )


@contextmanager
def _as_export_failure(what: str) -> Iterator[None]:
    """The libraries answer a damaged or absent model with many exception types; a person needs one line."""
    try:
        yield
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ExportFailed(f"{what}: {lines[0]}") from error
