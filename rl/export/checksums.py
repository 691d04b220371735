"""Size and SHA-256 of what was exported, so that a deployment can tell that it serves what was measured."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from django.conf import settings


def artifact_fields(path: Path) -> dict[str, Any]:
    """The fields ``path``, ``size_bytes`` and ``sha256`` of an Artifact. A directory's hash is that of its files'
    relative names and hashes, in order of name."""
    inside = path.is_relative_to(settings.DATA_DIR)
    return {
        "path": str(path.relative_to(settings.DATA_DIR) if inside else path),
        "size_bytes": sum(file.stat().st_size for file in _files(path)),
        "sha256": _digest(path),
    }


def _digest(path: Path) -> str:
    if path.is_file():
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    lines = (f"{file.relative_to(path).as_posix()} {_digest(file)}\n" for file in _files(path))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
