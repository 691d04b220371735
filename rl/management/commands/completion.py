"""``manage.py completion``."""

from __future__ import annotations

from dataclasses import dataclass

from rl.management.base import RatchetCommand
from rl.management.completion import SHELLS, known_commands, write_script
from rl.management.options import argument


@dataclass(frozen=True, slots=True)
class Options:
    shell: str = argument(choices=SHELLS, help="the shell that reads the script")


class Command(RatchetCommand):
    help = "Print a script that completes Ratchet's commands and their options in a shell."
    requires_system_checks: list[str] = []
    options = Options

    def run(self, options: Options) -> None:
        script = write_script(options.shell, known_commands())
        self.result({"script": script}, lines=[script])
