"""What there is to serve: the GGUF files that were exported here, and what an Ollama server has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings

from rl.base.errors import ExportFailed
from rl.models import Artifact
from rl.serving import on_ollama

PATIENCE_SECONDS = 3.0
"""For an Ollama server, which need not be there."""
_MEGABYTE = 1_000_000


def gguf_files() -> list[dict[str, Any]]:
    """``path`` and ``megabytes`` of each, in the order of their paths: below DATA_DIR/models, and what was exported to
    elsewhere and is still there."""
    exported = Artifact.objects.filter(kind=Artifact.Kind.GGUF).values_list("path", flat=True)
    paths = {settings.DATA_DIR / path for path in exported} | set((settings.DATA_DIR / "models").rglob("*.gguf"))
    files = sorted(path for path in paths if path.is_file())
    return [{"path": str(path), "megabytes": _megabytes(path.stat().st_size)} for path in files]


def ollama_models() -> tuple[list[dict[str, Any]], str]:
    """``name`` and ``megabytes`` of each, the newest first; or nothing, and why."""
    try:
        models = on_ollama.server(PATIENCE_SECONDS).list()
    except ExportFailed as error:
        return [], str(error)
    return [{"name": model.name, "megabytes": _megabytes(model.size_bytes)} for model in models], ""


def describe_path(path: str) -> str:
    """Below DATA_DIR without it."""
    file = Path(path)
    return str(file.relative_to(settings.DATA_DIR)) if file.is_relative_to(settings.DATA_DIR) else path


def _megabytes(size: int) -> float:
    return round(size / _MEGABYTE, 1)
