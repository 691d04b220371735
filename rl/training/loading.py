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
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from rl.errors import TrainingFailed
from rl.training.model_path import check_model_path

__all__ = ["check_model_path", "device", "load_base", "load_tokenizer", "memory_advice", "quiet", "uses_bf16"]

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


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
    with memory_advice(), _readable(base, "model"):
        model = AutoModelForCausalLM.from_pretrained(check_model_path(base), dtype=dtype, use_safetensors=True)
        return model.to(device())


def context_length(model: PreTrainedModel) -> int:
    """Tokens that the model has positions for; very large where its configuration does not say."""
    return int(getattr(model.config.get_text_config(), "max_position_embeddings", None) or 1 << 30)


@contextmanager
def memory_advice() -> Iterator[None]:
    """Turns running out of memory into a sentence that says what to change."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and not _is_out_of_memory(str(error)):
            raise
        raise TrainingFailed(
            f"out of memory on {device().type}: halve batch_size and double gradient_accumulation, lower max_length, "
            "set activation_checkpointing, or choose a smaller base model"
        ) from error


def _is_out_of_memory(message: str) -> bool:
    return any(sign in message.lower() for sign in _OUT_OF_MEMORY)


@contextmanager
def _readable(base: str, what: str) -> Iterator[None]:
    """Attributes what the libraries raise for damaged, foreign or unreachable models to the model."""
    try:
        yield
    except TrainingFailed:
        raise
    except (OSError, ValueError, KeyError, ImportError) as error:
        where = "" if Path(base).is_dir() else " (it is not a folder here, so the hub was asked)"
        raise TrainingFailed(f"cannot load the {what} of {base}{where}: {_first_line(error)}") from error


def _first_line(error: Exception) -> Any:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
