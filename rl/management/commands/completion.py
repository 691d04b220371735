"""Scripts that complete ``manage.py`` in a shell.

They hold the commands, options and choices of the day they were made, so that pressing Tab starts no Python. Each completes
``manage.py``, ``./manage.py`` and ``python3 manage.py``, and leaves other programs to the shell's own completion.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.core.management import get_commands, load_command_class

from backend.overview import DJANGO, commands, describe
from rl.management.base import RatchetCommand
from rl.management.options import argument

SHELLS: Final = ("bash", "zsh", "fish")


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
    """``shell``: one of SHELLS."""
    return {"bash": _write_bash, "zsh": _write_zsh, "fish": _write_fish}[shell](known)


def _write_bash(known: Mapping[str, KnownCommand]) -> str:
    cases = "\n".join(f"        {name}) words={shlex.quote(' '.join(row.words))} ;;" for name, row in known.items())
    return f"""\
# Completes Ratchet's manage.py in bash.
_ratchet() {{
    local at=1 words current=${{COMP_WORDS[COMP_CWORD]}}
    if [[ ${{COMP_WORDS[0]##*/}} == python* ]]; then
        [[ ${{COMP_WORDS[1]##*/}} == manage.py && $COMP_CWORD -gt 1 ]] || return 0
        at=2
    fi
    if [[ $COMP_CWORD -eq $at ]]; then
        words={shlex.quote(" ".join(known))}
    else
        case ${{COMP_WORDS[at]}} in
{cases}
        *) return 0 ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _ratchet manage.py ./manage.py python python3"""


def _write_zsh(known: Mapping[str, KnownCommand]) -> str:
    described = "\n".join(f"        {shlex.quote(f'{name}:{row.text}')}" for name, row in known.items())
    cases = "\n".join(
        f"        {name}) compadd -- {' '.join(row.words)} ;;" for name, row in known.items() if row.words
    )
    return f"""\
#compdef manage.py
# Completes Ratchet's manage.py in zsh.
_ratchet() {{
    local -a known
    local at=2
    if [[ ${{words[1]:t}} == python* ]]; then
        if [[ ${{words[2]:t}} != manage.py || $CURRENT -lt 3 ]]; then
            _files
            return
        fi
        at=3
    fi
    known=(
{described}
    )
    if (( CURRENT == at )); then
        _describe command known
        return
    fi
    case $words[at] in
{cases}
        *) _files ;;
    esac
}}
compdef _ratchet manage.py ./manage.py python python3"""


def _write_fish(known: Mapping[str, KnownCommand]) -> str:
    test = "__ratchet_at"
    lines = [
        f"    complete -c $program -n '{test} 0' -f -a {name} -d {shlex.quote(row.text)}" for name, row in known.items()
    ]
    lines += [
        f"    complete -c $program -n '{test} 1 {name}' -a {shlex.quote(' '.join(row.words))}"
        for name, row in known.items()
        if row.words
    ]
    return f"""\
# Completes Ratchet's manage.py in fish.
function {test}
    set -l typed (commandline -opc)
    if string match -q 'python*' (path basename $typed[1])
        set -e typed[1]
        test (count $typed) -ge 1; and test (path basename $typed[1]) = manage.py; or return 1
    end
    set -e typed[1]
    if test $argv[1] -eq 0
        test (count $typed) -eq 0
    else
        test (count $typed) -ge 1; and test $typed[1] = $argv[2]
    end
end
for program in manage.py python python3
{chr(10).join(lines)}
end"""
