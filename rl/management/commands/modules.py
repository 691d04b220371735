"""The tree of files, each with what it is."""

import ast
import re
from pathlib import Path

from django.conf import settings

from rl.base.errors import UsageError
from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, argument


class Options(CommandOptions):
    folder: str = argument(nargs="?", default="rl", help="such as rl/collect; default: rl")


class Command(RatchetCommand):
    help = "The files of a folder as a tree, each with the first sentence of its docstring."

    requires_system_checks = ()  # it reads source files and nothing else

    def run(self, options: Options) -> None:
        modules = captions(options.folder)
        document = {"modules": [{"path": path, "caption": caption} for path, caption in modules.items()]}
        lines = []
        for path, caption in modules.items():
            *folders, name = path.rstrip("/").split("/")
            tree = "  " * len(folders) + name + "/" * path.endswith("/")
            lines.append(f"{tree:<32}  {caption}")
        self.result(document, lines=lines)


def captions(folder: str) -> dict[str, str]:
    """Path to caption of the folders and modules below, from the project's root; a folder's path ends with a slash.
    Raises UsageError for what is not a folder of the project."""
    top = (settings.BASE_DIR / folder).resolve()
    if not top.is_dir() or not top.is_relative_to(settings.BASE_DIR):
        raise UsageError(f"{folder} is not a folder of Ratchet; try rl or rl/collect")
    files = sorted(top.rglob("*.py"), key=lambda file: (*file.parent.parts, "", file.name))  # files before folders
    by_path = {}
    for file in files:
        if "migrations" not in file.parts:
            path = file.relative_to(settings.BASE_DIR)
            by_path[f"{path.parent}/" if file.name == "__init__.py" else str(path)] = caption(file)
    return by_path


def caption(file: Path) -> str:
    """Empty where there is none."""
    first_paragraph = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
    return re.split(r"(?<=[.!?])\s", " ".join(first_paragraph.split()), maxsplit=1)[0]
