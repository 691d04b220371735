"""The JSON document beside every export: what the version is made of, part by part with hashes, and how it is asked.

It is for programs that serve the files themselves. Of a base model in a folder only the folder's name is told, as on the
model card."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rl.base.errors import UsageError
from rl.base.export_records import ExportedFile, ExportJob, ExportResult, Provenance, version_file_path
from rl.base.files import sha256_of
from rl.lm.base_models import local_folder
from rl.lm.model_path import ADAPTER_WEIGHTS

FORMAT: Final = 1


def version_document(
    format_name: str, job: ExportJob, result: ExportResult, files: Sequence[ExportedFile], known: Provenance
) -> dict[str, Any]:
    """What is not known is left out."""
    parts = {
        "format": FORMAT,
        "name": job.name,
        "agent": known.agent,
        "version": known.version,
        "parent": known.parent,
        "kind": format_name,
        "quantization": result.quantization,
        "base_model": describe_base(known.base_model),
        "adapter": {"sha256": sha256_of(job.adapter_dir / ADAPTER_WEIGHTS)} if job.adapter_dir else {},
        "instruction": {"text": known.manner.instruction, "place": known.manner.instruction_place},
        "rows": {"sha256": known.data.fingerprint, "trained_on": known.data.train_rows} if known.data else {},
        "answers": known.answers,
        "request": known.request,
        "files": list(map(asdict, files)),
    }
    if not known.manner.instruction:
        del parts["instruction"]
    return {name: value for name, value in parts.items() if value}


def describe_base(base_model: str) -> Mapping[str, Any]:
    """Its name, the commit that the hub's cache has of it, and the hashes of its weights where these are here."""
    try:
        folder = local_folder(base_model) if base_model else Path()
    except UsageError:  # somebody tidied up
        return {"name": name_of_base(base_model)}
    weights = sorted(folder.glob("*.safetensors")) if base_model else []
    facts = {
        "name": name_of_base(base_model),
        "revision": folder.name if folder.parent.name == "snapshots" else "",
        "sha256": {file.name: sha256_of(file) for file in weights},
    }
    return {name: value for name, value in facts.items() if value}


def is_whole_export(file: Path, base_model: str) -> bool:
    """Whether the file is what was once exported of the base model, as it is now."""
    try:
        stored = json.loads(version_file_path(file).read_text(encoding="utf-8"))
        hashes = [part["sha256"] for part in stored["files"]]
        return stored["base_model"] == describe_base(base_model) and hashes == [sha256_of(file)]
    except (OSError, ValueError, LookupError, TypeError):
        return False  # what cannot be read is made again


def name_of_base(base_model: str) -> str:
    in_folder = base_model and (base_model.startswith(("/", ".", "~")) or Path(base_model).exists())
    return Path(base_model).name if in_folder else base_model
