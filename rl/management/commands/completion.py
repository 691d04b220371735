"""Scripts that complete ``manage.py`` in a shell.

They hold the commands, options and choices of the day they were made, so that pressing Tab starts no Python. Each completes
``manage.py``, ``./manage.py`` and ``python3 manage.py``, and leaves other programs to the shell's own completion."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.core.management import get_commands, load_command_class

from backend.overview import DJANGO, commands, describe
from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, argument

SHELLS: Final = ("bash", "zsh", "fish")


class Options(CommandOptions):
    shell: str = argument(choices=SHELLS, help="the shell that reads the script")


class Command(RatchetCommand):
    help = "Print a script that completes Ratchet's commands and their options in a shell."
    requires_system_checks: list[str] = []

    def run(self, options: Options) -> None:
        script = write_script(options.shell, known_commands())
        self.result({"script": script}, lines=[script])


_DJANGOS_OWN: Final = {"--settings", "--pythonpath", "--traceback", "--force-color", "--skip-checks", "--version"}
"""Options that Django gives to each command, and that nobody types."""


@dataclass(frozen=True, slots=True)
class KnownCommand:
    text: str
    """A line for people."""
    words: tuple[str, ...]
    """Options, subcommands and choices, in their order."""


def known_commands() -> dict[str, KnownCommand]:
    """By name. Loads every command, which takes some seconds."""
    own = {name: KnownCommand(describe(name), _words(name)) for name in commands()}
    return own | {name: KnownCommand(text, ()) for name, text in DJANGO.items()}


def _words(name: str) -> tuple[str, ...]:
    words: dict[str, None] = {}
    for action in load_command_class(get_commands()[name], name).create_parser("manage.py", name)._actions:
        words |= dict.fromkeys(option for option in action.option_strings if option.startswith("--"))
        if not action.option_strings and action.choices:  # subcommands too
            words |= dict.fromkeys(map(str, action.choices))
    return tuple(word for word in words if word not in _DJANGOS_OWN)


def write_script(shell: str, known: Mapping[str, KnownCommand]) -> str:
    return {"bash": _write_bash, "zsh": _write_zsh, "fish": _write_fish}[shell](known)


def _write_bash(known: Mapping[str, KnownCommand]) -> str:
    cases = (f"        {name}) words={shlex.quote(' '.join(row.words))} ;;" for name, row in known.items())
    return _fill("bash", commands=[shlex.quote(" ".join(known))], cases=cases)


def _write_zsh(known: Mapping[str, KnownCommand]) -> str:
    described = (f"        {shlex.quote(f'{name}:{row.text}')}" for name, row in known.items())
    cases = (f"        {name}) compadd -- {' '.join(row.words)} ;;" for name, row in known.items() if row.words)
    return _fill("zsh", described=described, cases=cases)


def _write_fish(known: Mapping[str, KnownCommand]) -> str:
    begin, at = "    complete -c $program -n", "__ratchet_at"
    lines = [f"{begin} '{at} 0' -f -a {name} -d {shlex.quote(row.text)}" for name, row in known.items()]
    for name, row in known.items():
        lines += [f"{begin} '{at} 1 {name}' -a {shlex.quote(' '.join(row.words))}"] if row.words else []
    return _fill("fish", lines=lines)


def _fill(shell: str, **lines: Iterable[str]) -> str:
    """The script of the folder ``completions`` with the lines in the places that have their names."""
    script = (settings.BASE_DIR / f"rl/management/completions/manage.{shell}").read_text(encoding="utf-8").rstrip("\n")
    for name, texts in lines.items():
        script = script.replace(f"@{name}@", "\n".join(texts))
    return script
