"""Exports a merged model: a directory of safetensors, tokenizer, chat template and generation config.

Writes safetensors files one tensor at a time; the library's own writer wants a whole file in memory.

The format: eight bytes with the length of the header, little-endian; the header, JSON padded by spaces; the tensors.
https://github.com/huggingface/safetensors"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import huggingface_hub
import torch
from huggingface_hub import split_torch_state_dict_into_shards
from transformers import GenerationConfig, PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter

from rl.base.errors import ExportFailed
from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import Report
from rl.base.slugs import check_slug
from rl.export.gguf.weights import Checkpoint, require_finite
from rl.export.hf.adapter import Adapter
from rl.export.hf.loading import load_config, load_merged, load_tokenizer, require_own_matrices, skeleton, stored_dtype
from rl.export.staging import require_space, staged_directory
from rl.lm.loading import SHARD, quiet
from rl.lm.model_path import MODEL_CONFIG, check_adapter, check_model_path
from rl.lm.reading import describe_base, errors_as

_WEIGHT_FILES = ["model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors"]
_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16"}
_ALIGNMENT = 8
INDEX = "model.safetensors.index.json"
Shapes = Mapping[str, tuple[int, ...]]


class BaseWeights:
    """``names`` of the parameters in the order of transformers; ``obstacle`` says why they cannot be read one at a time,
    and is empty where they can. Raises ExportFailed for a model that lacks a parameter, or has one of another shape than
    its configuration says."""

    def __init__(self, base_model: str, config: Any) -> None:
        self.base_model = base_model
        self.model: PreTrainedModel = skeleton(config, base_model)
        self.dtype = stored_dtype(config)
        self.checkpoint = Checkpoint(_directory(base_model))
        parameters = self.model.state_dict()
        self._aliases: dict[str, str] = dict(self.model.all_tied_weights_keys)
        """The parameters that are another one: transformers saves them once."""
        self.shapes = {name: tuple(parameters[name].shape) for name in parameters if name not in self._aliases}
        self._source = {name: stored for name in self.shapes if (stored := self._stored_name(name))}
        self.obstacle = self._find_obstacle(config)
        if not self.obstacle:
            self._check_shapes()

    @property
    def names(self) -> list[str]:
        return list(self.shapes)

    def tensor(self, name: str) -> torch.Tensor:
        """As stored. Raises ExportFailed when a value is not finite."""
        return self.checkpoint.tensor(self._source[name])

    def _stored_name(self, name: str) -> str:
        """The files of a bare model, such as GPT-2's, leave out the prefix; empty where there is no such tensor."""
        bare = name.removeprefix(f"{self.model.base_model_prefix}.")
        return next((stored for stored in (name, bare) if stored in self.checkpoint.shapes), "")

    def _find_obstacle(self, config: Any) -> str:
        if getattr(config, "quantization_config", None):
            return "the base model is stored quantised"
        if any(isinstance(step, WeightConverter) for step in get_model_conversion_mapping(self.model)):
            return "transformers arranges the weights of this architecture anew"
        if self.dtype != torch.float32 and self.model._keep_in_fp32_modules_strict:
            return "this architecture keeps some weights in float32"
        if any(not self._equal(name, other) for name, other in self._aliases.items()):
            return "its output matrix and its embeddings are said to be one, and are not"
        missing = [name for name in self.shapes if name not in self._source]
        if missing and (unknown := self._unknown()):
            return f"it has other weights than transformers expects ({unknown[0]}, but no {missing[0]})"
        if missing:
            raise ExportFailed(f"the model of {describe_base(self.base_model)} is not whole: it lacks {missing[0]}")
        return ""

    def _equal(self, name: str, other: str) -> bool:
        """Whether a parameter that is said to be another one is not stored differently."""
        first, second = self._stored_name(name), self._source.get(other)
        if not first or not second:
            return True
        return torch.equal(self.checkpoint.tensor(first), self.checkpoint.tensor(second))

    def _unknown(self) -> list[str]:
        ignored = [re.compile(pattern) for pattern in self.model._keys_to_ignore_on_load_unexpected or ()]
        known = {*self._source.values(), *(self._stored_name(name) for name in self._aliases)}
        return [
            name
            for name in self.checkpoint.shapes
            if name not in known and not any(pattern.search(name) for pattern in ignored)
        ]

    def _check_shapes(self) -> None:
        for name, stored in self._source.items():
            if (shape := self.checkpoint.shapes[stored]) != self.shapes[name]:
                raise ExportFailed(
                    f"the weight {stored} of {describe_base(self.base_model)} has the shape {list(shape)}, "
                    f"but its configuration says {list(self.shapes[name])}"
                )


def _directory(base_model: str) -> Path:
    source = check_model_path(base_model)
    if Path(source).is_dir():
        return Path(source)
    with errors_as(ExportFailed, f"cannot load the model of {describe_base(base_model)}"):
        return Path(huggingface_hub.snapshot_download(source, allow_patterns=_WEIGHT_FILES))


def export(job: ExportJob, report: Report) -> ExportResult:
    """Writes ``<output_dir>/merged``; ``job.quantization`` does not apply. Raises UsageError (no such model) or
    ExportFailed (an adapter that does not fit, a full disk)."""
    check_slug(job.name, "export name")
    final = job.output_dir / "merged"
    with staged_directory(final) as directory:
        dtype = write_merged(job, directory, report)
    size = sum(path.stat().st_size for path in final.rglob("*") if path.is_file())
    return ExportResult(path=final, quantization=dtype, details={"size_bytes": size})


def write_merged(job: ExportJob, directory: Path, report: Report) -> str:
    """Fills ``directory`` with the merged model; returns the name of its weights' dtype. One parameter at a time is in
    memory. Where that cannot be done, all of them are, and the log says why."""
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
            model = load_merged(job.base_model, job.adapter_dir)
            require_space(directory.parent, sum(weight.nbytes for weight in model.parameters()))
            model.save_pretrained(directory, max_shard_size=SHARD)
        else:
            _write_one_by_one(weights, job.base_model, directory, report)
        tokenizer.save_pretrained(directory)
    except ValueError as error:
        raise ExportFailed(f"cannot save the merged model: {str(error).splitlines()[0]}") from error
    return str(weights.dtype).removeprefix("torch.")


def _write_one_by_one(weights: MergedWeights, base_model: str, directory: Path, report: Report) -> None:
    numbers = count(1)

    def read(name: str) -> torch.Tensor:
        report("step", {"step": next(numbers), "total_steps": len(weights.shapes), "metrics": {}})
        return weights.tensor(name)

    size = sum(math.prod(shape) for shape in weights.shapes.values()) * weights.dtype.itemsize
    require_space(directory.parent, size)
    # what save_pretrained of the model would write beside its weights
    config: Any = weights.base.model.config
    config.dtype = str(weights.dtype).removeprefix("torch.")
    config.architectures = [type(weights.base.model).__name__]
    config.save_pretrained(directory)
    if weights.base.model.can_generate():
        _generation_config(base_model).save_pretrained(directory)
    write_shards(directory, weights.shapes, weights.dtype, read, SHARD)


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
    """One parameter at a time. ``shapes`` of the parameters in the order of transformers; ``obstacle`` says why they have
    to be merged in memory instead, and is empty where they need not. Raises ExportFailed for a base or an adapter that is
    damaged, or for two that do not belong together."""

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
        Raises ExportFailed when a value is not finite."""
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
    ``read`` is called once for each name. Raises OSError when the disk refuses."""
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
