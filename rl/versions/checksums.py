"""Size and SHA-256 of what was exported, so that a deployment can tell that it serves what was measured."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings

from rl.base.export_records import ExportedFile
from rl.base.files import sha256_of


def artifact_fields(path: Path, files: Sequence[ExportedFile] = ()) -> dict[str, Any]:
    """The fields ``path``, ``size_bytes`` and ``sha256`` of an Artifact. A directory's hash is that of its files'
    relative names and hashes, in order of name. ``files``: its files, where their hashes are known already."""
    inside = path.is_relative_to(settings.DATA_DIR)
    files = files or list_files(path)
    return {
        "path": str(path.relative_to(settings.DATA_DIR) if inside else path),
        "size_bytes": sum(file.size_bytes for file in files),
        "sha256": files[0].sha256 if path.is_file() else _digest_of(files),
    }


def list_files(path: Path, known: Sequence[ExportedFile] = ()) -> tuple[ExportedFile, ...]:
    """The file, or all files of the directory in order of name. Those that are ``known`` are not read again."""
    by_name = {file.name: file for file in known}
    if path.is_file():
        return (by_name.get(path.name) or _hash_file(path, path.name),)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    names = {file.relative_to(path).as_posix(): file for file in files}
    return tuple(by_name.get(name) or _hash_file(file, name) for name, file in names.items())


def _digest_of(files: Sequence[ExportedFile]) -> str:
    return hashlib.sha256("".join(f"{file.name} {file.sha256}\n" for file in files).encode()).hexdigest()


def _hash_file(path: Path, name: str) -> ExportedFile:
    return ExportedFile(name, path.stat().st_size, sha256_of(path))
