"""The model card that stands beside every export: Markdown with a YAML head, as model hubs and people read it.

Texts that come from outside (licences, names, reasons) are escaped. Of a base model in a folder only the folder's name is
told: where it lies on this machine is nobody's business."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import ModelCard, ModelCardData, try_to_load_from_cache

from rl.base.export_records import (
    CARD_NAME,
    DataFacts,
    EvaluationFacts,
    ExportedFile,
    ExportJob,
    ExportResult,
    Provenance,
)
from rl.export.version_file import name_of_base
from rl.lm.model_path import ADAPTER_CONFIG

MARK = "ratchet"
"""Among the tags of our cards."""
UNKNOWN_LICENCE = "not known: see the base model"
_LIBRARIES = {"merged": "transformers", "lora": "peft", "gguf": "gguf", "gguf-lora": "gguf", "onnx": "onnx"}
_WHAT = {
    "merged": "A merged model, for transformers, vLLM and others.",
    "lora": "A LoRA adapter, for PEFT, on top of its base model.",
    "gguf": "One GGUF file, for llama.cpp, Ollama and what is built on them.",
    "gguf-lora": "A LoRA adapter as a GGUF file, for llama.cpp on top of a GGUF file of its base model.",
    "onnx": "An ONNX graph with its weights, for ONNX Runtime.",
}
_SPECIAL = re.compile(r"([\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
"""What means something within a line; an underscore within a word does not."""
_SPACE = re.compile(r"\s+")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LICENCE_BYTES = 1 << 20
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)


def name_on_card(directory: Path) -> str | None:
    """The name of the model that was exported to the directory; None where no card of ours is."""
    try:
        data = _read((directory / CARD_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, yaml.YAMLError):
        return None
    return str(data.model_name) if MARK in (data.tags or []) else None


def model_card(
    format_name: str, job: ExportJob, result: ExportResult, files: Sequence[ExportedFile], known: Provenance
) -> str:
    sections = {
        "Model": _model(job, result, known),
        "Training data": _data(known.data),
        "Training": _table(("setting", "value"), _settings(known)),
        "Evaluation": "\n\n".join(map(_evaluation, known.evaluations)),
        "Files": _files(files, result),
        "Checked against the model": _table(
            ("figure", "value"),
            [(name.replace("_", " "), value) for name, value in result.details.get("self_check", {}).items()],
        ),
    }
    text = [f"# {escape(job.name)}", _WHAT[format_name]]
    text += [part for title, body in sections.items() for part in (f"## {title}", body or "Nothing is known.")]
    return f"---\n{_head(format_name, job, known).to_yaml()}\n---\n\n" + "\n\n".join(text) + "\n"


def escape(value: object) -> str:
    """One line that Markdown and HTML show as it is."""
    return _SPECIAL.sub(r"\\\1", _SPACE.sub(" ", str(value)).strip().translate(_HTML))


def _head(format_name: str, job: ExportJob, known: Provenance) -> ModelCardData:
    base = known.base_model
    return ModelCardData(
        model_name=job.name,
        base_model=base if _HUB_ID.fullmatch(base) and not Path(base).exists() else None,
        library_name=_LIBRARIES[format_name],
        license=_licence(base),
        pipeline_tag="text-generation",
        tags=[MARK, *([known.method] if known.method else []), *(["lora"] if job.adapter_dir else [])],
    )


def _model(job: ExportJob, result: ExportResult, known: Provenance) -> str:
    base = known.base_model
    rows = {
        "agent": known.agent,
        "version": known.version,
        "version before": known.parent,
        "base model": name_of_base(base) or "not known",
        "licence of the base model": _licence(base) or UNKNOWN_LICENCE,
        "what was trained": _adapter(job.adapter_dir) if job.adapter_dir else "all weights" if known.method else "",
        "must be told with every question": known.manner.instruction,
        "where it is told": known.told_where if known.manner.instruction else "",
        "weights stored as": result.quantization,
    }
    return _table(("", ""), {name: value for name, value in rows.items() if value}.items())


def _adapter(directory: Path) -> str:
    """PEFT's method in words."""
    config = json.loads((directory / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    kinds = [
        name for name, key in (("rank-stabilised", "use_rslora"), ("weight-decomposed", "use_dora")) if config.get(key)
    ]
    targets = config.get("target_modules") or []
    layers = [targets] if isinstance(targets, str) else sorted({str(name).rpartition(".")[2] for name in targets})
    peft = str(config.get("peft_type", "")).replace("LORA", "LoRA")
    kind = f"{peft} adapter".strip() + (f" ({', '.join(kinds)})" if kinds else "")
    return f"{kind}, rank {config.get('r')}, alpha {config.get('lora_alpha')}, on {', '.join(layers)}"


def _data(data: DataFacts | None) -> str:
    if data is None:
        return ""
    rows: dict[str, Any] = {
        "fingerprint (SHA-256 of the rows)": data.fingerprint,
        "rows": f"{data.train_rows:,} trained on, {data.heldout_rows:,} held out",
        "items of feedback read": data.feedback,
    }
    if data.ratings:
        rows |= {"ratings": data.ratings, "raters": data.raters, "agreement between raters": _agreement(data)}
    return _table(("", ""), rows.items())


def _agreement(data: DataFacts) -> str:
    if not data.shared_judgements:
        return "not known: no answer was rated by two of them"
    share = data.agreeing / data.shared_judgements
    return f"{share:.0%} of {data.shared_judgements:,} times that two of them rated one answer"


def _settings(known: Provenance) -> Iterator[tuple[str, Any]]:
    if known.method:
        yield "method", known.method
    yield from ((name, value) for name, value in known.hyperparameters.items() if value not in ("", None))


def _evaluation(evaluation: EvaluationFacts) -> str:
    rows = [
        (name, f"{figure.value:.1%}", f"{figure.low:.1%} to {figure.high:.1%}")
        for name, figure in evaluation.figures.items()
    ]
    table = _table((f"{evaluation.date}: {evaluation.measure}", "value", "95 % interval"), rows)
    return f"{table}\n\n**{escape(evaluation.verdict)}** {escape(evaluation.reason)}".strip()


def _files(files: Sequence[ExportedFile], result: ExportResult) -> str:
    rows = [(file.name, f"{file.size_bytes:,}", file.sha256) for file in files]
    table = _table(("file", "bytes", "SHA-256"), rows)
    types = result.details.get("tensor_types")
    return table + (f"\n\nTensors: {', '.join(f'{count} {kind}' for kind, count in types.items())}." if types else "")


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Empty without rows."""
    lines = [" | ".join(escape(cell) for cell in row) for row in rows]
    titles = " | ".join(escape(cell) for cell in head)
    return "\n".join(f"| {line} |" for line in (titles, " | ".join("---" for _ in head), *lines)) if lines else ""


def _read(text: str) -> Any:
    """The head of a card. Raises ValueError, TypeError or YAMLError."""
    return ModelCard(text).data


def _licence(base: str) -> str | None:
    """As the base model's own card says it. Asks no hub: what is not in the folder or the cache is not known."""
    folder = Path(base)
    card_file: Any = folder / CARD_NAME if base and folder.is_dir() else None
    if card_file is None and _HUB_ID.fullmatch(base):
        card_file = try_to_load_from_cache(base, CARD_NAME)
    if not isinstance(card_file, (str, Path)):
        return None
    try:
        with Path(card_file).open(encoding="utf-8") as card:
            licence = _read(card.read(_LICENCE_BYTES)).license
    except (OSError, ValueError, TypeError, yaml.YAMLError):
        return None
    return ", ".join(map(str, licence)) if isinstance(licence, list) else licence and str(licence)
