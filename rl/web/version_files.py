"""The files of a version that may be downloaded: those of registered artifacts, below DATA_DIR."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.conf import settings

from rl.base.export_records import card_path
from rl.models import Artifact, ModelVersion

_CARD_BYTES: Final = 65_536
_HEAD: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class VersionFile:
    artifact: Artifact
    name: str
    size: int


def list_files(version: ModelVersion) -> list[VersionFile]:
    """Those that are there; a folder's are listed by name."""
    return [file for artifact in version.artifacts.all() for file in _files(artifact)]


def _files(artifact: Artifact) -> list[VersionFile]:
    root = _root(artifact)
    if root is None:
        return []
    paths = sorted(root.iterdir()) if root.is_dir() else [root]
    plain = [path for path in paths if path.is_file() and not path.is_symlink()]
    return [VersionFile(artifact, path.name, path.stat().st_size) for path in plain]


def find_file(artifact: Artifact, name: str) -> Path | None:
    """None where the artifact has no such file, or lies elsewhere than below DATA_DIR."""
    root = _root(artifact)
    names = [file.name for file in _files(artifact)]
    if root is None or name not in names:
        return None
    return root / name if root.is_dir() else root


def read_card(version: ModelVersion) -> str:
    """The model card of its newest export as Markdown, without the head for machines; empty where none was written."""
    for artifact in reversed(version.artifacts.all()):
        root = _root(artifact)
        card = card_path(root) if root else None
        if card and card.is_file() and not card.is_symlink():
            return _HEAD.sub("", card.read_bytes()[:_CARD_BYTES].decode(errors="replace"))
    return ""


def _root(artifact: Artifact) -> Path | None:
    folder = Path(settings.DATA_DIR).resolve()
    path = (folder / artifact.path).resolve()
    return path if path.is_relative_to(folder) and path != folder and path.exists() else None
