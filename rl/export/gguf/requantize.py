"""Rounds the tensors of a GGUF file that another program made; everything else in the file stays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from rl.base.errors import BadFile, ExportFailed
from rl.base.records import Report
from rl.export.gguf.quantize import quantize
from rl.export.gguf.types import Mixture, byte_size
from rl.export.gguf.weights import Array
from rl.export.gguf_header import open_gguf
from rl.export.staging import require_space

_OWN = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")
"""Fields that the writer makes, or that are other after rounding."""


def requantize(source: Path, destination: Path, level: str, report: Report) -> dict[str, int]:
    """Reads one tensor at a time of a file in f32, f16 or bf16, and returns how many tensors got which type."""
    reader = open_gguf(source)
    mixture = _mixture(reader, level)
    kinds = {tensor.name: _kind(mixture, tensor) for tensor in reader.tensors}
    size = sum(byte_size(kinds[tensor.name], _shape(tensor)) for tensor in reader.tensors)
    require_space(destination.parent, size + source.stat().st_size - sum(tensor.n_bytes for tensor in reader.tensors))
    writer = gguf.GGUFWriter(destination, str(_value(reader, "general.architecture", "")))
    try:
        _copy_fields(reader, writer, mixture)
        for tensor in reader.tensors:
            kind = kinds[tensor.name]
            writer.add_tensor_info(
                tensor.name, _shape(tensor), np.dtype(np.float32), byte_size(kind, _shape(tensor)), raw_dtype=kind
            )
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for number, tensor in enumerate(reader.tensors, start=1):
            writer.write_tensor_data(quantize(_read(source, tensor), kinds[tensor.name]))
            report("step", {"step": number, "total_steps": len(reader.tensors), "metrics": {}})
        writer.flush()
    finally:
        writer.close()
    return dict(Counter(kind.name for kind in kinds.values()))


def tensor_types(path: Path) -> dict[str, int]:
    """How many tensors of the file have which type. Raises ExportFailed for a file that is not GGUF."""
    try:
        return dict(Counter(tensor.tensor_type.name for tensor in open_gguf(path).tensors))
    except BadFile as error:
        raise ExportFailed(f"what was made is not a GGUF file: {error}") from error


def _mixture(reader: gguf.GGUFReader, level: str) -> Mixture:
    arch = _value(reader, "general.architecture", "")
    heads, kv_heads = (_value(reader, f"{arch}.attention.{name}", 1) for name in ("head_count", "head_count_kv"))
    layers = int(_value(reader, f"{arch}.block_count", 1))
    untied = any(tensor.name == "output.weight" for tensor in reader.tensors)
    output = "output.weight" if untied else "token_embd.weight"
    return Mixture(level, layers, _most(heads) // max(1, _most(kv_heads)), output)


def _most(heads: Any) -> int:
    """Some architectures give each layer its own number."""
    return int(max(heads)) if isinstance(heads, list) else int(heads)


def _kind(mixture: Mixture, tensor: gguf.ReaderTensor) -> Type:
    return mixture.type_of(tensor.name, _shape(tensor)) if mixture.rounds(tensor.name) else tensor.tensor_type


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


def _copy_fields(reader: gguf.GGUFReader, writer: gguf.GGUFWriter, mixture: Mixture) -> None:
    for name, field in reader.fields.items():
        if not name.startswith(_OWN):
            writer.add_key_value(name, field.contents(), field.types[0], field.types[-1])
    writer.add_file_type(mixture.file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def _value(reader: gguf.GGUFReader, name: str, missing: Any) -> Any:
    field = reader.get_field(name)
    return missing if field is None else field.contents()
