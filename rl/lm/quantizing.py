"""The base model in 4 bits (QLoRA, Dettmers et al., 2023): a quarter of bf16's memory; the adapter trains as ever.

Frozen weights W are stored as NF4, in blocks with a scale each; a forward pass computes W x + (alpha / r) B A x with W
unpacked to ``dtype``, and gradients reach A and B alone.
"""

from __future__ import annotations

import torch
from peft import prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel

from rl.hardware import detect_hardware, in_4bit


def is_wanted(quantize_base: str, device: torch.device) -> bool:
    """Raises UsageError for 4bit where it cannot work."""
    if quantize_base == "none" or (quantize_base == "auto" and device.type != "cuda"):
        return False
    return in_4bit(quantize_base, detect_hardware())


def read(source: str, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    settings = BitsAndBytesConfig(
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
