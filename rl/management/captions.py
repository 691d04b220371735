"""What every file is, from the first sentence of its docstring: nobody keeps these captions a second time."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from django.conf import settings

from rl.base.errors import UsageError


def captions(folder: str) -> dict[str, str]:
    """Path to caption of the folders and modules below, from the project's root; a folder's path ends with a slash.

    Raises UsageError for what is not a folder of the project.
    """
    top = (settings.BASE_DIR / folder).resolve()
    if not top.is_dir() or not top.is_relative_to(settings.BASE_DIR):
        raise UsageError(f"{folder} is not a folder of Ratchet; try rl or rl/collect")
    files = sorted(top.rglob("*.py"), key=lambda file: (*file.parent.parts, "", file.name))  # files before folders
    return {_path(file): caption(file) for file in files if "migrations" not in file.parts}


def caption(file: Path) -> str:
    """Empty where there is none."""
    first_paragraph = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
    return re.split(r"(?<=[.!?])\s", " ".join(first_paragraph.split()), maxsplit=1)[0]


def _path(file: Path) -> str:
    path = file.relative_to(settings.BASE_DIR)
    return f"{path.parent}/" if file.name == "__init__.py" else str(path)
