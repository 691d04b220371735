"""Converts a merged model directory into one GGUF file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from transformers import GenerationConfig

from rl.base.errors import ExportFailed
from rl.base.records import Report
from rl.export.gguf.architectures import PlannedTensor, find_architecture, kv_heads, plan_tensors, write_hyperparameters
from rl.export.gguf.quantize import quantize
from rl.export.gguf.tokenizer import write_tokenizer
from rl.export.gguf.types import Mixture, byte_size
from rl.export.gguf.weights import Checkpoint
from rl.export.hf.loading import load_config
from rl.export.staging import require_space
from rl.lm.reading import read_tokenizer

_HEADER_BYTES_PER_ROW = 40
"""A generous estimate of what one vocabulary entry, with its merges, takes in the header."""


def convert(model_dir: Path, destination: Path, level: str, name: str, report: Report) -> dict[str, int]:
    """Writes ``destination`` and returns how many tensors got which type, for example ``{"Q4_K": 14, "F32": 5}``. Raises
    ExportFailed for a model that GGUF or this converter cannot express, and OSError when the disk refuses."""
    config = load_config(str(model_dir))
    architecture = find_architecture(config)
    tensors = plan_tensors(Checkpoint(model_dir), architecture, config)
    untied = any(tensor.name == "output.weight" for tensor in tensors)
    output = "output.weight" if untied else "token_embd.weight"
    mixture = Mixture(level, config.num_hidden_layers, config.num_attention_heads // kv_heads(config), output)
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    kinds = {tensor_name: mixture.type_of(tensor_name, shape) for tensor_name, shape in shapes.items()}
    rows = shapes["token_embd.weight"][0]
    size = sum(byte_size(kinds[tensor_name], shape) for tensor_name, shape in shapes.items())
    require_space(destination.parent, size + rows * _HEADER_BYTES_PER_ROW)
    writer = gguf.GGUFWriter(destination, architecture.name)
    try:
        writer.add_type(gguf.GGUFType.MODEL)
        writer.add_name(name)
        writer.add_file_type(mixture.file_type)
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        write_hyperparameters(writer, config, architecture)
        write_tokenizer(
            writer, model_dir, read_tokenizer(str(model_dir), ExportFailed), rows, _end_ids(model_dir, config)
        )
        write_tensors(writer, tensors, kinds, report)
    finally:
        writer.close()
    return dict(Counter(kind.name for kind in kinds.values()))


def _end_ids(model_dir: Path, config: Any) -> object:
    """Generation stops at the ids of generation_config.json, where there is one."""
    if (model_dir / "generation_config.json").is_file():
        return GenerationConfig.from_pretrained(model_dir).eos_token_id
    return config.eos_token_id


def write_tensors(
    writer: gguf.GGUFWriter, tensors: list[PlannedTensor], kinds: dict[str, gguf.GGMLQuantizationType], report: Report
) -> None:
    """The fields, all names, shapes and types first, then the data, so that one tensor at a time is in memory."""
    for tensor in tensors:
        kind = kinds[tensor.name]
        writer.add_tensor_info(
            tensor.name, tensor.shape, np.dtype(np.float32), byte_size(kind, tensor.shape), raw_dtype=kind
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for number, tensor in enumerate(tensors, start=1):
        writer.write_tensor_data(quantize(tensor.load(), kinds[tensor.name]))
        report("step", {"step": number, "total_steps": len(tensors), "metrics": {}})
    writer.flush()
