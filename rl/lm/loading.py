"""Models, tokenizers and adapters in memory: from safetensors only, without foreign code, on the best device here."""

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
import transformers
from peft import PeftModel, get_peft_model_state_dict, prepare_model_for_kbit_training
from safetensors import safe_open
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from rl.base.errors import OutOfMemory, RatchetError, TrainingFailed, UsageError
from rl.base.manner import ASKED_PLAINLY, Manner
from rl.base.records import Report
from rl.hardware import choose_gpu, cpu_runs_bf16, detect_hardware, in_4bit, precision_on, usable_cores
from rl.lm import processes
from rl.lm.lengths import UNKNOWN_CONTEXT
from rl.lm.model_path import ADAPTER_WEIGHTS, check_adapter, check_model_path, check_weights, is_adapter
from rl.lm.reading import describe_base, errors_as, read_tokenizer
from rl.lm.resources import release_memory, resource_advice

SHARD = "4GB"
"""Most of one weight file."""


def quiet() -> None:
    """No telemetry, no progress bars, no advice meant for the libraries' own users. Call it once per process."""
    huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    huggingface_hub.utils.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=FutureWarning)
    # Forked tokenizer threads and a forking data loader do not go together; one thread is fast enough here.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def leave_a_core_free() -> None:
    """One thread fewer than there are cores, unless OMP_NUM_THREADS says how many. The site and the queue run beside a
    training; where every thread has to share its core, the threads wait for each other in busy loops and two of them were
    measured to be 3 to 14 times slower than one."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, min(torch.get_num_threads(), usable_cores() - 1)))


_asked = "auto"


def use_device(name: str) -> None:
    """What ``device`` says from now on: cpu, cuda, cuda:N, mps, or auto. Raises UsageError for one that is not here."""
    global _asked
    choose_gpu(name)
    kind = name.partition(":")[0]
    if kind in ("cuda", "mps") and not {"cuda": torch.cuda, "mps": torch.backends.mps}[kind].is_available():
        raise UsageError(f"there is no device {name} here: leave it out, or take cpu")
    _asked = kind


def device() -> torch.device:
    """The process's own GPU of NVIDIA or AMD (PyTorch for ROCm calls it cuda too), Apple's, or the CPU."""
    if _asked in ("cpu", "mps"):
        return torch.device(_asked)
    if torch.cuda.is_available():
        return torch.device("cuda", processes.device_number())
    return torch.device("mps") if torch.backends.mps.is_available() else torch.device("cpu")


def uses_bf16(precision: str) -> bool:
    """Whether to compute in bfloat16. ``auto`` does on a GPU that has it, ``bf16`` on all devices but a CPU that is slow."""
    if replaces_bf16(precision):
        return False
    if precision == "auto":
        return device().type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return precision == "bf16"


def replaces_bf16(precision: str) -> bool:
    """Whether float32 is computed in although bfloat16 is asked for."""
    return precision_on(precision, device().type, cpu_runs_bf16()) != precision


def autocast_dtype(precision: str) -> torch.dtype | None:
    return torch.bfloat16 if uses_bf16(precision) else None


def load_tokenizer(base: str, manner: Manner = ASKED_PLAINLY) -> PreTrainedTokenizerBase:
    """``manner``: how the model is asked; the tokenizer's files say so from then on. Raises UsageError (no such model), or
    TrainingFailed for one that cannot be loaded or cannot write a chat."""
    tokenizer: PreTrainedTokenizerBase = read_tokenizer(check_model_path(base), TrainingFailed, manner)
    if not tokenizer.chat_template:
        raise TrainingFailed(
            f"{base} has no chat template, so it is probably not an instruct model: choose its instruct variant, "
            "or put the template of its family into chat_template.jinja beside its tokenizer"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_base(base: str, precision: str = "auto", quantize: str = "none") -> PreTrainedModel:
    """The causal language model on its device, in bfloat16 or float32, or in 4 bits; ``quantize`` is none, auto or 4bit.
    Raises UsageError or TrainingFailed."""
    dtype = torch.bfloat16 if uses_bf16(precision) else torch.float32
    release_memory()  # the last model may still be there, and both may not fit
    try:
        with errors_as(TrainingFailed, f"cannot load the model of {describe_base(base)}"), resource_advice():
            if wants_4bit(quantize, device()):
                return read_4bit(check_model_path(base), dtype, device())
            return read_model(base, dtype).to(device())
    except OutOfMemory as error:  # no smaller step of a training would help
        raise TrainingFailed(
            f"out of memory: the base model {base} does not fit; choose a smaller one, precision bf16, "
            "or quantize_base 4bit on an NVIDIA GPU"
        ) from error


def open_model(
    base: str, report: Report, *, precision: str = "auto", manner: Manner = ASKED_PLAINLY
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    """Opens a model in evaluation mode, for measures and judges. Raises as ``load_tokenizer`` and ``load_base``."""
    quiet()
    leave_a_core_free()
    report("stage", {"name": "loading the base model"})
    return load_tokenizer(base, manner), load_base(base, precision).eval()


def context_length(config: PretrainedConfig) -> int:
    """Tokens that the model has positions for; very large where its configuration does not say."""
    return int(getattr(config.get_text_config(), "max_position_embeddings", None) or UNKNOWN_CONTEXT)


@contextmanager
def with_weights(model: PreTrainedModel, weights: Path | None) -> Iterator[torch.nn.Module]:
    """The model with the adapter in place, or the whole model that was trained from it, None being the bare model;
    afterwards the model is as it was. Raises TrainingFailed for weights that are not there or damaged, or an adapter of
    another model."""
    if weights is None:
        yield model
        return
    if not is_adapter(check_weights(weights, TrainingFailed)):
        with errors_as(TrainingFailed, f"cannot load the model of {weights}"), resource_advice():
            whole = read_model(str(weights), model.dtype).to(model.device).eval()
        try:
            yield whole
        finally:
            whole.to("meta")  # which frees the weights, whoever still has a name for the model
        return
    peft_model = put_adapter(model, weights, TrainingFailed).eval()
    try:
        yield peft_model
    finally:
        peft_model.unload()


def base_within(model: PreTrainedModel | PeftModel) -> PreTrainedModel:
    """The model that an adapter is in, or the model itself."""
    base: PreTrainedModel = model.get_base_model() if isinstance(model, PeftModel) else model
    return base


# --- shared with the export -------------------------------------------------------------------------------------------


def read_config(base: str, failure: type[RatchetError]) -> Any:
    """The transformers configuration of a model directory or hub id. Raises UsageError where there is none."""
    source = check_model_path(base)
    with errors_as(failure, f"cannot read the configuration of {describe_base(source)}"):
        return transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)


def read_model(base: str, dtype: torch.dtype) -> PreTrainedModel:
    """Raises UsageError for a path at which there is no model, and otherwise what the libraries raise."""
    source = check_model_path(base)
    return AutoModelForCausalLM.from_pretrained(source, dtype=dtype, use_safetensors=True, trust_remote_code=False)


def put_adapter(model: PreTrainedModel, adapter: Path, failure: type[RatchetError]) -> PeftModel:
    """Raises ``failure`` for an adapter that is not there, damaged, or of another model."""
    check_adapter(adapter, failure)
    with errors_as(failure, f"the adapter {adapter} does not fit {model.name_or_path}"):
        _require_no_new_tokens(model, adapter)
        peft_model = PeftModel.from_pretrained(model, str(adapter))
        # PEFT passes over weights that the model has no place for, and leaves random those that the file does not have
        known = get_peft_model_state_dict(peft_model, save_embedding_layers=False)
        if stray := sorted(lora_weights(adapter) ^ {name for name in known if ".lora_" in name}):
            raise ValueError(f"{len(stray)} weights do not match, the first is {stray[0]}")
    return peft_model


def _require_no_new_tokens(model: PreTrainedModel, adapter: Path) -> None:
    """Raises ValueError for one that was trained with more tokens than the model has."""
    known = model.get_input_embeddings().weight.shape[0]
    with safe_open(adapter / ADAPTER_WEIGHTS, framework="pt") as file:
        names = [name for name in file.keys() if name.endswith(_EMBEDDINGS)]  # noqa: SIM118 - not a mapping
        rows = max((file.get_slice(name).get_shape()[0] for name in names), default=0)
    if rows <= known:
        return
    path = adapter / "tokenizer.json"
    added = json.loads(path.read_text(encoding="utf-8")).get("added_tokens", []) if path.is_file() else []
    new = " ".join([str(token["content"]) for token in added if token["id"] >= known][:_MOST_NAMED])
    raise ValueError(
        f"it has embeddings of {rows} tokens, and the model {known}{f'; new are {new}' if new else ''}. Merge it "
        "with the model and the tokenizer that it was trained on (merge_and_unload), and take what comes of it as base model"
    )


def lora_weights(adapter: Path) -> set[str]:
    """The names of the LoRA weights in the adapter's file."""
    with safe_open(adapter / ADAPTER_WEIGHTS, framework="pt") as file:
        return {name for name in file.keys() if ".lora_" in name}  # noqa: SIM118 - not a mapping


_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "lm_head.weight")
"""Ends of the names of weights with a row for each token."""
_MOST_NAMED = 10


def wants_4bit(quantize_base: str, device: torch.device) -> bool:
    """Raises UsageError for 4bit where it cannot work."""
    if quantize_base == "none" or (quantize_base == "auto" and device.type != "cuda"):
        return False
    return in_4bit(quantize_base, detect_hardware())


def read_4bit(source: str, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """QLoRA (Dettmers et al., 2023): a quarter of bf16's memory; the adapter trains as ever. Frozen weights W are stored as
    NF4, in blocks with a scale each; a forward pass computes W x + (alpha / r) B A x with W unpacked to ``dtype``, and
    gradients reach A and B alone."""
    settings = transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",  # levels at the quantiles of a normal distribution, which weights follow
        bnb_4bit_use_double_quant=True,  # the blocks' scales are quantised too: 0.37 bits a weight less
        bnb_4bit_compute_dtype=dtype,
    )
    model = AutoModelForCausalLM.from_pretrained(
        source,
        dtype=dtype,
        quantization_config=settings,
        device_map={"": device.index or 0},
        use_safetensors=True,
        trust_remote_code=False,
    )
    # Freezes the weights and casts the rest, norms and embeddings, to float32. Recomputed activations are the trainer's
    # business.
    return prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
