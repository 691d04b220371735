"""Exports one GGUF file, for llama.cpp, Ollama and what is built on them.

Who makes a GGUF file: our converter or the script of a llama.cpp checkout, and which program rounds to k-levels.

``requantize`` rounds the tensors of a GGUF file that another program made; everything else in the file stays."""

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from transformers import GenerationConfig

from rl.base.errors import BadFile, ExportFailed
from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import Report
from rl.base.slugs import check_slug
from rl.config.levels import SMALL_LEVELS, check_level
from rl.export.gguf.architectures import (
    ARCHITECTURES,
    PlannedTensor,
    find_architecture,
    kv_heads,
    plan_tensors,
    write_hyperparameters,
)
from rl.export.gguf.check import self_check
from rl.export.gguf.quantize import k_quant_library, quantize
from rl.export.gguf.tokenizer import write_tokenizer
from rl.export.gguf.types import Mixture, byte_size, describe_replaced
from rl.export.gguf.weights import Array, Checkpoint
from rl.export.gguf_header import open_gguf
from rl.export.hf.loading import load_config, stored_dtype
from rl.export.hf.merge import write_merged
from rl.export.llama_cpp.tools import PROGRAM, VARIABLE, convert_script, quantize_program, run_program, run_script
from rl.export.staging import require_space, scratch_directory, staged_file
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
    with closing(gguf.GGUFWriter(destination, architecture.name)) as writer:
        writer.add_type(gguf.GGUFType.MODEL)
        writer.add_name(name)
        writer.add_file_type(mixture.file_type)
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        write_hyperparameters(writer, config, architecture)
        write_tokenizer(
            writer, model_dir, read_tokenizer(str(model_dir), ExportFailed), rows, _end_ids(model_dir, config)
        )
        write_tensors(writer, tensors, kinds, report)
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


_OWN = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")
"""Fields that the writer makes, or that are other after rounding."""


def export(job: ExportJob, report: Report) -> ExportResult:
    """Writes ``<output_dir>/gguf/<name>-<quantization>.gguf`` after comparing it with the model it came from. Raises
    UsageError (an unknown level, no such model) or ExportFailed (an architecture that cannot be exported, a missing
    package, a full disk, a file that llama.cpp runs differently); no file is left behind then."""
    level = check_level(job.quantization)
    making = plan_making(load_config(job.base_model), level)
    folder = job.output_dir / "gguf"
    final = folder / f"{check_slug(job.name, 'export name')}-{level}.gguf"
    with (
        scratch_directory(folder, "merged") as merged,
        scratch_directory(folder, "exact") as spare,
        staged_file(final) as partial,
    ):
        write_merged(job, merged, report)
        report("stage", {"name": "convert"})
        types = make(making, merged, partial, spare, job.name, report)
        report("stage", {"name": "check"})
        figures = self_check(partial, merged, level)
        size = partial.stat().st_size
    details = {"tensor_types": types, "quantizer": making.quantizer, "self_check": figures, "size_bytes": size}
    if warning := describe_replaced(level, types):
        report("log", {"text": warning})
        details["warning"] = warning
    return ExportResult(path=final, quantization=level, details=details)


@dataclass(frozen=True, slots=True)
class Making:
    level: str
    exact_level: str
    """Level of the file in between, where one is needed: rounds nothing that the merged model holds."""
    script: Path | None
    """None for our own converter."""
    program: str | None
    """The path of ``llama-quantize`` where that makes the k-level."""
    quantizer: str
    """What rounds the weights, for a person to see."""


def plan_making(config: Any, level: str) -> Making:
    """Raises ExportFailed for an architecture that nobody here converts, or a level that nobody here rounds to."""
    name, script = (config.architectures or ["none named"])[0], None
    if name in ARCHITECTURES:
        find_architecture(config)  # refuses a variant that llama.cpp would run wrongly: its script would write it too
    elif (script := convert_script()) is None:
        raise ExportFailed(
            f"no GGUF export for the architecture {name}; supported: {', '.join(ARCHITECTURES)}; for another one, set "
            f"{VARIABLE} to a checkout of llama.cpp, whose converter is then used"
        )
    exact = "bf16" if stored_dtype(config) == torch.bfloat16 else "f32"
    if level not in SMALL_LEVELS:
        return Making(level, exact, script, None, script.name if script else "gguf")
    if program := quantize_program():
        return Making(level, exact, script, program, PROGRAM)
    return Making(level, exact, script, None, k_quant_library().package)


def make(making: Making, model_dir: Path, destination: Path, spare: Path, name: str, report: Report) -> dict[str, int]:
    """Writes ``destination``, with room in ``spare`` for a file in between. Returns how many tensors got which type, for
    example ``{"Q4_K": 14, "F32": 5}``."""
    if not (making.program is not None or (making.script is not None and making.level in SMALL_LEVELS)):
        return _convert(making.script, model_dir, destination, making.level, name, report)
    exact = spare / "exact.gguf"
    _convert(making.script, model_dir, exact, making.exact_level, name, report)
    report("stage", {"name": "quantize"})
    if making.program is None:
        return requantize(exact, destination, making.level, report)
    run_program(making.program, exact, destination, making.level, torch.get_num_threads(), report)
    return tensor_types(destination)


def _convert(
    script: Path | None, model_dir: Path, destination: Path, level: str, name: str, report: Report
) -> dict[str, int]:
    if script is None:
        return convert(model_dir, destination, level, name, report)
    run_script(script, model_dir, destination, level, name, report)
    return tensor_types(destination)


def requantize(source: Path, destination: Path, level: str, report: Report) -> dict[str, int]:
    """Reads one tensor at a time of a file in f32, f16 or bf16, and returns how many tensors got which type."""
    reader = open_gguf(source)
    arch = _value(reader, "general.architecture", "")
    heads, kv_heads = (_value(reader, f"{arch}.attention.{name}", 1) for name in ("head_count", "head_count_kv"))
    layers = int(_value(reader, f"{arch}.block_count", 1))
    untied = any(tensor.name == "output.weight" for tensor in reader.tensors)
    output = "output.weight" if untied else "token_embd.weight"
    mixture = Mixture(level, layers, _most(heads) // max(1, _most(kv_heads)), output)
    tensors = [PlannedTensor(tensor.name, _shape(tensor), partial(_read, source, tensor)) for tensor in reader.tensors]
    kinds = {
        tensor.name: mixture.type_of(tensor.name, _shape(tensor)) if mixture.rounds(tensor.name) else tensor.tensor_type
        for tensor in reader.tensors
    }
    size = sum(byte_size(kinds[tensor.name], tensor.shape) for tensor in tensors)
    require_space(destination.parent, size + source.stat().st_size - sum(tensor.n_bytes for tensor in reader.tensors))
    with closing(gguf.GGUFWriter(destination, str(_value(reader, "general.architecture", "")))) as writer:
        for name, field in reader.fields.items():
            if not name.startswith(_OWN):
                writer.add_key_value(name, field.contents(), field.types[0], field.types[-1])
        writer.add_file_type(mixture.file_type)
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        write_tensors(writer, tensors, kinds, report)
    return dict(Counter(kind.name for kind in kinds.values()))


def tensor_types(path: Path) -> dict[str, int]:
    """How many tensors of the file have which type. Raises ExportFailed for a file that is not GGUF."""
    try:
        return dict(Counter(tensor.tensor_type.name for tensor in open_gguf(path).tensors))
    except BadFile as error:
        raise ExportFailed(f"what was made is not a GGUF file: {error}") from error


def _most(heads: Any) -> int:
    """Some architectures give each layer its own number."""
    return int(max(heads)) if isinstance(heads, list) else int(heads)


def _shape(tensor: gguf.ReaderTensor) -> tuple[int, ...]:
    """GGUF tells the fastest dimension first."""
    return tuple(int(width) for width in reversed(tensor.shape.tolist()))


def _read(source: Path, tensor: gguf.ReaderTensor) -> Array:
    """From the file, not from the reader's map of it, whose pages would stay in memory."""
    stored = np.fromfile(source, np.uint8, int(tensor.n_bytes), offset=int(tensor.data_offset))
    if tensor.tensor_type in (Type.F32, Type.F16):
        width = np.float32 if tensor.tensor_type is Type.F32 else np.float16
        return stored.view(width).astype(np.float32).reshape(_shape(tensor))
    rows = stored.reshape(*_shape(tensor)[:-1], -1)
    values: Array = gguf.quants.dequantize(rows, tensor.tensor_type)
    return values


def _value(reader: gguf.GGUFReader, name: str, missing: Any) -> Any:
    field = reader.get_field(name)
    return missing if field is None else field.contents()
