"""Exports the adapter alone: as a clean PEFT adapter, and as the GGUF adapter that llama.cpp and Ollama load."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from rl.errors import ExportFailed, UsageError
from rl.export.gguf_architectures import Architecture, find_architecture, gguf_name, reordered_rows
from rl.export.gguf_weights import Array, Checkpoint
from rl.export.loading import layer_shapes, load_config
from rl.export.records import ExportJob, ExportResult
from rl.export.staging import require_space, staged_directory
from rl.records import Report
from rl.slugs import check_slug
from rl.training.loading import quiet
from rl.training.model_path import ADAPTER_CONFIG, ADAPTER_WEIGHTS, check_adapter

_PREFIX = "base_model.model."
_KEY = re.compile(re.escape(_PREFIX) + r"(?P<module>.+)\.lora_(?P<side>[AB])\.weight")
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "use_dora": (False, None),
    "lora_bias": (False, None),
    "modules_to_save": (None, []),
    "trainable_token_indices": (None,),
    "target_parameters": (None, []),
    "layer_replication": (None, []),
    "use_qalora": (False, None),
    "alora_invocation_tokens": (None,),
    "use_bdlora": (None, False),
    "arrow_config": (None,),
    "kasa_config": (None,),
    "monteclora_config": (None,),
    "velora_config": (None,),
}
"""What a GGUF adapter can express; any other value needs a merged export."""


def export(job: ExportJob, report: Report) -> ExportResult:
    """Writes ``<output_dir>/lora`` with both forms; ``job.quantization`` does not apply.

    Raises UsageError without an adapter, and ExportFailed for one that is unfinished, does not belong to the base model
    or cannot be expressed as a GGUF adapter.
    """
    check_slug(job.name, "export name")
    quiet()
    if job.adapter_dir is None:
        raise UsageError("there is no adapter to export, but a whole model: export it as merged or gguf")
    report("stage", {"name": "convert"})
    source = check_adapter(job.adapter_dir, ExportFailed)
    config = _read_config(source)
    final = job.output_dir / "lora"
    with staged_directory(final) as directory:
        require_space(job.output_dir, 2 * (source / ADAPTER_WEIGHTS).stat().st_size)
        shutil.copyfile(source / ADAPTER_WEIGHTS, directory / ADAPTER_WEIGHTS)
        clean = config | {"base_model_name_or_path": job.base_model, "inference_mode": True}
        (directory / ADAPTER_CONFIG).write_text(json.dumps(clean, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        count = convert_adapter(source, directory / f"{job.name}-lora-f16.gguf", job.base_model, job.name)
    size = sum(path.stat().st_size for path in final.iterdir())
    return ExportResult(path=final, quantization="f16", details={"tensor_types": {"F16": count}, "size_bytes": size})


def convert_adapter(adapter_dir: Path, destination: Path, base_model: str, name: str) -> int:
    """Writes the adapter as GGUF (float16) and returns the number of its tensors."""
    config = _read_config(adapter_dir)
    _check_expressible(config)
    base = load_config(base_model)
    architecture = find_architecture(base)
    checkpoint = Checkpoint(adapter_dir, ADAPTER_WEIGHTS)
    _check_fit(checkpoint, layer_shapes(base), adapter_dir, base_model)
    tensors = dict(_converted(checkpoint, key, config, architecture, base) for key in sorted(checkpoint.shapes))
    if not tensors:
        raise ExportFailed(f"the adapter {adapter_dir} holds no LoRA weights")
    writer = gguf.GGUFWriter(destination, architecture.name)
    try:
        _write(writer, tensors, float(config["lora_alpha"]), name)
    finally:
        writer.close()
    return len(tensors)


def _write(writer: gguf.GGUFWriter, tensors: dict[str, Any], alpha: float, name: str) -> None:
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    writer.add_name(name)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for tensor_name, values in tensors.items():
        writer.add_tensor(tensor_name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()


def _converted(
    checkpoint: Checkpoint, key: str, config: dict[str, Any], architecture: Architecture, base: Any
) -> tuple[str, Any]:
    """Conv1D layers need no transposition: PEFT keeps A as (r, in) and B as (out, r) for them too."""
    module, side = key.removeprefix(_PREFIX).removesuffix(".weight").rsplit(".lora_", 1)
    if module.endswith("lm_head") and base.tie_word_embeddings:
        raise _not_expressible("it trains lm_head, which this base model shares with its embeddings")
    values = checkpoint.read(key)
    if side == "B":
        values = reordered_rows(values, f"{module}.weight", architecture, base)
        values = values * np.float32(_extra_scale(module, values.shape[1], config))
    return f"{gguf_name(architecture, base, f'{module}.weight')}.lora_{side.lower()}", _as_f16(values, key)


def _check_fit(checkpoint: Checkpoint, layers: dict[str, tuple[int, int]], adapter_dir: Path, base_model: str) -> None:
    """llama.cpp would find out only when it loads the adapter."""
    for key, shape in checkpoint.shapes.items():
        if (found := _KEY.fullmatch(key)) is None:
            raise _not_expressible(f"it trains {key}")
        layer = layers.get(found["module"])
        own = shape[1:] if found["side"] == "A" else shape[:1]
        if layer is None or own != (layer[1:] if found["side"] == "A" else layer[:1]):
            raise ExportFailed(f"the adapter {adapter_dir} was not trained on {base_model}: {key} does not fit it")


def _extra_scale(module: str, rank: int, config: dict[str, Any]) -> float:
    """llama.cpp scales every update by ``lora_alpha / rank``; this is what PEFT's own scale is beyond that."""
    alpha = _alpha_of(module, config)
    divisor = rank**0.5 if config.get("use_rslora") else rank
    return float(alpha / divisor / (config["lora_alpha"] / rank))


def _alpha_of(module: str, config: dict[str, Any]) -> float:
    """The first of ``alpha_pattern``'s keys that matches the end of the module's name, as PEFT reads them."""
    for pattern, alpha in (config.get("alpha_pattern") or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", module):
            return float(alpha)
    return float(config["lora_alpha"])


def _as_f16(values: Array, key: str) -> Any:
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16)
    if not np.isfinite(halves).all():
        raise ExportFailed(f"the adapter weight {key} is beyond the range of float16; export merged instead")
    return halves


def _check_expressible(config: dict[str, Any]) -> None:
    for key, allowed in _NEUTRAL.items():
        if config.get(key, allowed[0]) not in allowed:
            raise _not_expressible(f"{key} is {config[key]!r}")
    if not config.get("lora_alpha"):
        raise _not_expressible(f"lora_alpha is {config.get('lora_alpha')!r}")


def _not_expressible(why: str) -> ExportFailed:
    return ExportFailed(f"this adapter cannot be a GGUF adapter, because {why}: export merged or gguf instead")


def _read_config(adapter_dir: Path) -> dict[str, Any]:
    try:
        config = json.loads((adapter_dir / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExportFailed(f"cannot read {adapter_dir / ADAPTER_CONFIG}: {error}") from error
    if not isinstance(config, dict):
        raise ExportFailed(f"{adapter_dir / ADAPTER_CONFIG} is not a JSON object")
    return config
