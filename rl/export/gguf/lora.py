"""Exports the adapter alone as GGUF, which llama.cpp and Ollama load on top of a GGUF of the same base model."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from rl.base.errors import ExportFailed
from rl.base.export_records import ExportJob, ExportResult
from rl.base.records import Report, silent
from rl.base.slugs import check_slug
from rl.export.gguf.architectures import Architecture, find_architecture, gguf_name, reorder_rows
from rl.export.gguf.export import convert
from rl.export.gguf.tokenizer import render_chat
from rl.export.hf.adapter import Adapter, Update
from rl.export.hf.loading import load_config, load_tokenizer, stored_dtype
from rl.export.hf.lora import open_adapter
from rl.export.hf.merge import write_merged
from rl.export.llama_cpp.process import NOT_RUN, LogitsWanted, ask, is_available
from rl.export.staging import require_space, scratch_directory, staged_file
from rl.lm.loading import put_adapter, quiet, read_model
from rl.lm.model_path import ADAPTER_WEIGHTS
from rl.lm.reading import errors_as

_LEVEL = "f16"
_POSITIONS = 64
"""At most so many next-token distributions are compared: each is as wide as the vocabulary."""
_CHAT = [
    {
        "role": "user",
        "content": "Which reading of pump 7 needs somebody to look at it today: its pressure of 12.5 bar, the "
        "temperature that rose by 3 degrees since 8:00, or the vibration? Say why, and whom to call.",
    }
]
_ROUNDED = 2e-2
"""Divergence as a share of PEFT's own from knowing nothing: about what weights in 16 bits are seen to lose, times ten."""
_MOST_OF_EFFECT = 0.25
"""Divergence as a share of what the adapter itself makes: an adapter that was left out would be 1."""


def export(job: ExportJob, report: Report) -> ExportResult:
    """Writes ``<output_dir>/gguf/<name>-lora-f16.gguf`` after comparing it with PEFT; ``job.quantization`` does not apply.
    Raises UsageError without an adapter, and ExportFailed for one that is unfinished, does not belong to the base model, or
    cannot be expressed as a GGUF adapter."""
    quiet()
    final = job.output_dir / "gguf" / f"{check_slug(job.name, 'export name')}-lora-{_LEVEL}.gguf"
    config = load_config(job.base_model)
    architecture = find_architecture(config)
    adapter = open_adapter(job)
    _require_expressible(adapter, config)
    with (
        scratch_directory(final.parent, "base") as base_dir,
        scratch_directory(final.parent, "file") as spare,
        staged_file(final) as partial,
    ):
        report("stage", {"name": "convert"})
        count = convert_adapter(adapter, partial, config, architecture, job.name)
        report("stage", {"name": "check"})
        figures: dict[str, Any] = {"skipped": NOT_RUN}
        if is_available():  # on a GGUF of the base model, made for this and thrown away
            dtype = write_merged(replace(job, adapter_dir=None), base_dir, silent)
            convert(base_dir, spare / "base.gguf", "bf16" if dtype == "bfloat16" else "f16", job.name, silent)
            figures = check_in_llama_cpp(partial, spare / "base.gguf", base_dir, adapter.directory)
        size = partial.stat().st_size
    details = {"tensor_types": {"F16": count}, "self_check": figures, "size_bytes": size}
    return ExportResult(path=final, quantization=_LEVEL, details=details)


def convert_adapter(adapter: Adapter, destination: Path, config: Any, architecture: Architecture, name: str) -> int:
    """Writes the adapter and returns the number of its tensors. ``config`` is the base model's."""
    require_space(destination.parent, (adapter.directory / ADAPTER_WEIGHTS).stat().st_size)
    with closing(gguf.GGUFWriter(destination, architecture.name)) as writer:
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
        writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(adapter.config["lora_alpha"]))
        writer.add_name(name)
        writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        for update in adapter.updates.values():
            target = gguf_name(architecture, config, update.weight)
            for side in "AB":
                values = _convert_matrix(adapter, update, side, architecture, config)
                writer.add_tensor(f"{target}.lora_{side.lower()}", values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    return 2 * len(adapter.updates)


def _convert_matrix(adapter: Adapter, update: Update, side: str, architecture: Architecture, config: Any) -> Any:
    """A stays; B takes the row order of its layer, and what the update's scale is beyond llama.cpp's own ``alpha / r``.
    Layers stored as (in, out) need no transposition: PEFT keeps A as (r, in) and B as (out, r) for them too."""
    values = adapter.weights.read(adapter.key(update, side))
    if side == "B":
        values = reorder_rows(values, update.weight, architecture, config)
        values = values * np.float32(update.scale / (adapter.config["lora_alpha"] / values.shape[1]))
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16)
    if not np.isfinite(halves).all():
        raise ExportFailed(
            f"the adapter weight {adapter.key(update, side)} is beyond the range of float16: export merged or gguf instead"
        )
    return halves


def _require_expressible(adapter: Adapter, config: Any) -> None:
    why = adapter.special
    if not why and not adapter.config.get("lora_alpha"):
        why = f"lora_alpha is {adapter.config.get('lora_alpha')!r}"
    if not why and config.tie_word_embeddings and "lm_head.weight" in adapter.updates:
        why = "it trains lm_head, which this base model shares with its embeddings"
    if why:
        raise ExportFailed(f"this adapter cannot be a GGUF adapter, because {why}: export merged or gguf instead")


def check_in_llama_cpp(adapter_file: Path, base_file: Path, base_dir: Path, adapter_dir: Path) -> dict[str, Any]:
    """Figures for a person. ``mean_kl`` is the divergence of llama.cpp from PEFT, ``adapter_kl`` that of the bare base.
    Raises ExportFailed when llama.cpp cannot load the file, or predicts something else than PEFT."""
    tokens = _tokens(base_dir)
    with scratch_directory(adapter_file.parent, "logits") as folder:
        request = LogitsWanted(tokens, max(0, len(tokens) - _POSITIONS), folder / "logits.f32")
        answer = ask(base_file, adapter=adapter_file, logits=request)
        logits = torch.from_numpy(np.fromfile(request.file, np.float32).reshape(-1, answer.vocabulary))
    right, bare = _reference(base_dir, adapter_dir, tokens, request.first)
    divergence, effect = _divergence(right, logits), _divergence(right, bare)
    limit = max(_ROUNDED * _divergence(right, torch.zeros_like(right)), _MOST_OF_EFFECT * effect)
    if not divergence <= limit:  # nor for logits that are not numbers
        raise ExportFailed(
            f"the GGUF adapter does not behave like the adapter: predictions diverge by {divergence:.3g} (at most "
            f"{limit:.3g} is rounding), while the adapter itself makes {effect:.3g} of difference"
        )
    same = (right.argmax(-1) == logits.argmax(-1)).double().mean()
    return {
        "positions": len(logits),
        "mean_kl": float(f"{divergence:.3g}"),
        "adapter_kl": float(f"{effect:.3g}"),
        "top1_agreement": round(float(same), 4),
    }


def _tokens(base_dir: Path) -> list[int]:
    tokenizer = load_tokenizer(str(base_dir), None)
    text = render_chat(tokenizer, _CHAT) if tokenizer.chat_template else _CHAT[0]["content"]
    tokens: list[int] = tokenizer(text, add_special_tokens=not tokenizer.chat_template)["input_ids"]
    return tokens[: load_config(str(base_dir)).max_position_embeddings]


@torch.inference_mode()
def _reference(base_dir: Path, adapter_dir: Path, tokens: list[int], first: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (positions, vocabulary) with the adapter, and without it."""
    with errors_as(ExportFailed, f"cannot load the model of {base_dir}"):
        model = read_model(str(base_dir), stored_dtype(load_config(str(base_dir))))
    adapted = put_adapter(model, adapter_dir, ExportFailed).eval()
    ids = torch.tensor([tokens])
    right = adapted(input_ids=ids).logits[0, first:]
    with adapted.disable_adapter():
        return right, adapted(input_ids=ids).logits[0, first:]


def _divergence(right: torch.Tensor, other: torch.Tensor) -> float:
    """Kullback-Leibler, from the right distribution, mean over the positions; natural logarithms."""
    p, q = right.double().log_softmax(-1), other.double().log_softmax(-1)
    return float((p.exp() * (p - q)).sum(-1).mean())
