"""The tree of files, each with what it is."""

from __future__ import annotations

from dataclasses import dataclass

from rl.management.base import RatchetCommand
from rl.management.captions import captions
from rl.management.options import argument


@dataclass(frozen=True, slots=True)
class Options:
    folder: str = argument(nargs="?", default="rl", help="such as rl/collect; default: rl")


class Command(RatchetCommand):
    help = "The files of a folder as a tree, each with the first sentence of its docstring."

    requires_system_checks = ()  # it reads source files and nothing else
    options = Options

    def run(self, options: Options) -> None:
        modules = captions(options.folder)
        document = {"modules": [{"path": path, "caption": caption} for path, caption in modules.items()]}
        self.result(document, lines=[_line(path, caption) for path, caption in modules.items()])


def _line(path: str, caption: str) -> str:
    *folders, name = path.rstrip("/").split("/")
    tree = "  " * len(folders) + name + "/" * path.endswith("/")
    return f"{tree:<32}  {caption}"
