"""Exports a merged model: a directory of safetensors, tokenizer, chat template and generation config.

Writes safetensors files one tensor at a time; the library's own writer wants a whole file in memory.

The format: eight bytes with the length of the header, little-endian; the header, JSON padded by spaces; the tensors.
https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import torch
from huggingface_hub import split_torch_state_dict_into_shards
from transformers import GenerationConfig, PreTrainedModel

from rl.base.errors import ExportFailed
from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import Report
from rl.base.slugs import check_slug
from rl.export.gguf.weights import require_finite
from rl.export.hf.adapter import Adapter
from rl.export.hf.base_weights import BaseWeights
from rl.export.hf.loading import load_config, load_merged, load_tokenizer, require_own_matrices
from rl.export.staging import require_space, staged_directory
from rl.lm.loading import SHARD, errors_as, quiet
from rl.lm.model_path import MODEL_CONFIG, check_adapter, check_model_path

_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16"}
_ALIGNMENT = 8
INDEX = "model.safetensors.index.json"

Shapes = Mapping[str, tuple[int, ...]]


def export(job: ExportJob, report: Report) -> ExportResult:
    """Writes ``<output_dir>/merged``; ``job.quantization`` does not apply.

    Raises UsageError (no such model) or ExportFailed (an adapter that does not fit, a full disk).
    """
    check_slug(job.name, "export name")
    final = job.output_dir / "merged"
    with staged_directory(final) as directory:
        dtype = write_merged(job, directory, report)
    size = sum(path.stat().st_size for path in final.rglob("*") if path.is_file())
    return ExportResult(path=final, quantization=dtype, details={"size_bytes": size})


def write_merged(job: ExportJob, directory: Path, report: Report) -> str:
    """Fills ``directory`` with the merged model; returns the name of its weights' dtype.

    One parameter at a time is in memory. Where that cannot be done, all of them are, and the log says why.
    """
    quiet()
    report("stage", {"name": "merge"})
    tokenizer = load_tokenizer(job.base_model, job.adapter_dir)
    config = load_config(job.base_model)
    if job.adapter_dir is not None:
        require_own_matrices(config, check_adapter(job.adapter_dir, ExportFailed), job.base_model)
    weights = MergedWeights(BaseWeights(job.base_model, config), job.adapter_dir)
    try:
        if weights.obstacle:
            report("log", {"text": f"merged in memory, which takes that of the whole model; {weights.obstacle}"})
            _write_at_once(job, directory)
        else:
            _write_one_by_one(weights, job.base_model, directory, report)
        tokenizer.save_pretrained(directory)
    except ValueError as error:
        raise ExportFailed(f"cannot save the merged model: {str(error).splitlines()[0]}") from error
    return str(weights.dtype).removeprefix("torch.")


def _write_at_once(job: ExportJob, directory: Path) -> None:
    model = load_merged(job.base_model, job.adapter_dir)
    require_space(directory.parent, sum(weight.nbytes for weight in model.parameters()))
    model.save_pretrained(directory, max_shard_size=SHARD)


def _write_one_by_one(weights: MergedWeights, base_model: str, directory: Path, report: Report) -> None:
    numbers = count(1)

    def read(name: str) -> torch.Tensor:
        report("step", {"step": next(numbers), "total_steps": len(weights.shapes), "metrics": {}})
        return weights.tensor(name)

    size = sum(math.prod(shape) for shape in weights.shapes.values()) * weights.dtype.itemsize
    require_space(directory.parent, size)
    _write_configuration(weights.base.model, weights.dtype, base_model, directory)
    write_shards(directory, weights.shapes, weights.dtype, read, SHARD)


def _write_configuration(model: PreTrainedModel, dtype: torch.dtype, base_model: str, directory: Path) -> None:
    """What ``save_pretrained`` of the model would write beside its weights."""
    config: Any = model.config
    config.dtype = str(dtype).removeprefix("torch.")
    config.architectures = [type(model).__name__]
    config.save_pretrained(directory)
    if model.can_generate():
        _generation_config(base_model).save_pretrained(directory)


def _generation_config(base_model: str) -> GenerationConfig:
    """The base model's own, else what its configuration says about generation, as transformers reads it."""
    source = check_model_path(base_model)
    with errors_as(ExportFailed, f"cannot read the generation config of {base_model}"):
        try:
            config: GenerationConfig = GenerationConfig.from_pretrained(source)
        except OSError:
            config = GenerationConfig.from_pretrained(source, config_file_name=MODEL_CONFIG, _from_model_config=True)
    return config


class MergedWeights:
    """One parameter at a time. ``shapes`` of the parameters in the order of transformers; ``obstacle`` says why they have to
    be merged in memory instead, and is empty where they need not.

    Raises ExportFailed for a base or an adapter that is damaged, or for two that do not belong together.
    """

    def __init__(self, base: BaseWeights, adapter_dir: Path | None) -> None:
        self.base = base
        self.obstacle = base.obstacle
        self.adapter: Adapter | None = None
        if adapter_dir is not None and not self.obstacle:
            self.adapter = Adapter(adapter_dir, base.model, base.base_model)
            self.obstacle = self.adapter.special and f"of the adapter: {self.adapter.special}"
        self.shapes = base.shapes
        self.dtype = base.dtype

    def tensor(self, name: str) -> torch.Tensor:
        """In ``dtype``. The sum is computed in float32 and rounded once, to the nearest and ties to even, as PEFT does.

        Raises ExportFailed when a value is not finite.
        """
        weight = self.base.tensor(name)
        update = self.adapter.updates.get(name) if self.adapter else None
        if self.adapter is None or update is None:
            return weight.to(self.dtype)
        merged = (weight.to(self.dtype).to(torch.float32) + self.adapter.delta(update)).to(self.dtype)
        require_finite(merged, f"{name} with its update")
        return merged


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
