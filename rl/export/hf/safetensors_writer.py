"""Writes safetensors files one tensor at a time; the library's own writer wants a whole file in memory.

The format: eight bytes with the length of the header, little-endian; the header, JSON padded by spaces; the tensors.
https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import torch
from huggingface_hub import split_torch_state_dict_into_shards

_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16"}
_ALIGNMENT = 8
INDEX = "model.safetensors.index.json"

Shapes = Mapping[str, tuple[int, ...]]


def write_shards(
    directory: Path, shapes: Shapes, dtype: torch.dtype, read: Callable[[str], torch.Tensor], largest: str
) -> None:
    """Files of at most ``largest`` ("4GB"), cut and named as transformers does, with an index where there are several.

    ``read`` is called once for each name. Raises OSError when the disk refuses.
    """
    with torch.device("meta"):
        tensors = {name: torch.empty(shape, dtype=dtype) for name, shape in shapes.items()}
    split = split_torch_state_dict_into_shards(tensors, max_shard_size=largest)
    for file, names in split.filename_to_tensors.items():
        with (directory / file).open("wb") as handle:
            _write(handle, {name: tensors[name] for name in names}, dtype, read)
    if split.is_sharded:
        count = sum(tensor.numel() for tensor in tensors.values())
        index = {"metadata": {"total_parameters": count, **split.metadata}, "weight_map": split.tensor_to_filename}
        text = json.dumps(index, indent=2, sort_keys=True) + "\n"
        (directory / INDEX).write_text(text, encoding="utf-8")


def _write(
    handle: BinaryIO, tensors: dict[str, torch.Tensor], dtype: torch.dtype, read: Callable[[str], torch.Tensor]
) -> None:
    header = _header(tensors, dtype)
    handle.write(len(header).to_bytes(8, "little"))
    handle.write(header)
    for name, plan in tensors.items():
        values = read(name)
        if values.dtype != dtype or values.shape != plan.shape:
            raise ValueError(
                f"{name} was planned as {dtype} {list(plan.shape)}, not {values.dtype} {list(values.shape)}"
            )
        handle.write(values.contiguous().reshape(-1).view(torch.uint8).numpy().data)


def _header(tensors: dict[str, torch.Tensor], dtype: torch.dtype) -> bytes:
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, plan in tensors.items():
        start, end = end, end + plan.nbytes
        entries[name] = {"dtype": _NAMES[dtype], "shape": list(plan.shape), "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % _ALIGNMENT)
