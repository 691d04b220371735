"""``export_to_ollama`` with Command Center's arguments and its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rl.base.errors import RatchetError
from rl.base.leaves import import_name
from rl.base.records import silent
from rl.export import release

MODEL_NAME, QUANTIZATION = "cc-widget-selector", "q4_k_m"


@dataclass(frozen=True, slots=True)
class ExportResult:
    success: bool
    gguf_path: str = ""
    ollama_model_name: str | None = None
    error_message: str = ""
    file_size_mb: float = 0.0


def export_to_ollama(
    checkpoint_path: Path | str,
    model_name: str | None = None,
    base_model: str | None = None,
    quantization: str | None = None,
    output_dir: Path | str | None = None,
    register: bool = True,
) -> ExportResult:
    """Writes the GGUF file and, unless told otherwise, registers it at OLLAMA_URL. What fails is told in the result."""
    name = model_name or MODEL_NAME
    try:
        made = release.export_checkpoint(
            str(checkpoint_path),
            "gguf",
            quantization or QUANTIZATION,
            name=name,
            output=str(output_dir or ""),
            base=base_model or "",
            report=silent,
        )
        if register:
            import_name("rl.runs.exporter.register_file")(made, name, silent)
    except RatchetError as error:
        return ExportResult(False, error_message=str(error))
    megabytes = made.path.stat().st_size / 1_000_000
    return ExportResult(True, str(made.path), name if register else None, "", round(megabytes, 1))
