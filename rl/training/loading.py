"""Base models and tokenizers in memory: from safetensors only, without foreign code, on the device that there is."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import torch
import transformers
from peft import PeftModel, get_peft_model_state_dict
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from rl.errors import TrainingFailed
from rl.training.model_path import check_model_path
from rl.training.resources import resource_advice

__all__ = [
    "adapted",
    "autocast_dtype",
    "check_model_path",
    "context_length",
    "device",
    "load_base",
    "load_tokenizer",
    "quiet",
    "uses_bf16",
]

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")


def quiet() -> None:
    """No telemetry, no progress bars, no advice meant for the libraries' own users. Call it once per process."""
    huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    huggingface_hub.utils.disable_progress_bars()
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=FutureWarning)
    # Forked tokenizer threads and a forking data loader do not go together; one thread is fast enough here.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def device() -> torch.device:
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def uses_bf16(precision: str) -> bool:
    """Whether to compute in bfloat16. ``auto`` does on a GPU that has it; many CPUs only emulate it."""
    if precision == "auto":
        return device().type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return precision == "bf16"


def autocast_dtype(precision: str) -> torch.dtype | None:
    return torch.bfloat16 if uses_bf16(precision) else None


def load_tokenizer(base: str) -> PreTrainedTokenizerBase:
    """Raises TrainingFailed for a tokenizer that cannot be loaded or cannot write a chat."""
    with _readable(base, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(check_model_path(base))
    if not tokenizer.chat_template:
        raise TrainingFailed(
            f"{base} has no chat template, so it is probably no instruct model: choose its instruct variant, "
            "or put the template of its family into chat_template.jinja beside its tokenizer"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_base(base: str, precision: str = "auto") -> PreTrainedModel:
    """The causal language model on its device, in bfloat16 or float32. Raises TrainingFailed."""
    dtype = torch.bfloat16 if uses_bf16(precision) else torch.float32
    with resource_advice(), _readable(base, "model"):
        model = AutoModelForCausalLM.from_pretrained(check_model_path(base), dtype=dtype, use_safetensors=True)
        return model.to(device())


def context_length(model: PreTrainedModel) -> int:
    """Tokens that the model has positions for; very large where its configuration does not say."""
    return int(getattr(model.config.get_text_config(), "max_position_embeddings", None) or 1 << 30)


@contextmanager
def adapted(model: PreTrainedModel, adapter: Path | None) -> Iterator[torch.nn.Module]:
    """The model with the adapter in place, None being the bare model; afterwards the model is as it was.

    Raises TrainingFailed for an adapter that is not there, damaged, or of another model.
    """
    if adapter is None:
        yield model
        return
    # PEFT would fall back to a pickle.
    if missing := [name for name in ADAPTER_FILES if not (adapter / name).is_file()]:
        raise TrainingFailed(f"{adapter} is no adapter: {' and '.join(missing)} missing")
    try:
        peft_model = PeftModel.from_pretrained(model, str(adapter)).eval()
        _require_all_weights(peft_model, adapter)
    except (RuntimeError, ValueError, KeyError, OSError, SafetensorError) as error:
        raise TrainingFailed(f"the adapter {adapter} does not fit the base model: {_first_line(error)}") from error
    try:
        yield peft_model
    finally:
        peft_model.unload()


def _require_all_weights(peft_model: PeftModel, adapter: Path) -> None:
    """PEFT passes over weights that the model has no place for, and leaves random those that the file does not have."""
    with safe_open(adapter / ADAPTER_FILES[1], framework="pt") as file:
        stored = {name for name in file.keys() if ".lora_" in name}  # noqa: SIM118 - not a mapping
    expected = {name for name in get_peft_model_state_dict(peft_model, save_embedding_layers=False) if ".lora_" in name}
    if stray := sorted(stored ^ expected):
        raise ValueError(f"{len(stray)} weights do not match, the first is {stray[0]}")


@contextmanager
def _readable(base: str, what: str) -> Iterator[None]:
    """Attributes what the libraries raise for damaged, foreign or unreachable models to the model."""
    try:
        yield
    except TrainingFailed:
        raise
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        where = "" if Path(base).is_dir() else " (it is not a folder here, so the hub was asked)"
        raise TrainingFailed(f"cannot load the {what} of {base}{where}: {_first_line(error)}") from error


def _first_line(error: Exception) -> Any:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
