"""``manage.py completion``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser

from rl.management.base import RatchetCommand
from rl.management.completion import SHELLS, known_commands, write_script
from rl.management.options import read_options


@dataclass(frozen=True, slots=True)
class Options:
    shell: str


class Command(RatchetCommand):
    help = "Print a script that completes Ratchet's commands and their options in a shell."
    requires_system_checks: list[str] = []

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")

    def run(self, **arguments: Any) -> None:
        script = write_script(read_options(Options, arguments).shell, known_commands())
        self.result({"script": script}, lines=[script])
