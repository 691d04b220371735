"""Completion scripts, run by the shells that they are for."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from rl.management.commands.completion import KnownCommand, known_commands, write_script
from tests.missing import missing

TYPED = {
    "python3 manage.py train_d": ["train_dpo"],
    "./manage.py runs c": ["cancel"],
    "manage.py import_traces --for": ["--format"],
    "python3 other.py train_d": [],
}
BASH = """source {script}
COMP_WORDS=({typed}); COMP_CWORD={at}; COMPREPLY=()
_ratchet
printf '%s\n' "${{COMPREPLY[@]}}"
"""
ZSH = """compdef() {{ : }}; _files() {{ : }}
_describe() {{ print -l ${{(P)2}} }}
compadd() {{ shift; print -l -- $@ }}
source {script}
words=({typed}); CURRENT={at}+1
_ratchet
"""
FISH = "source {script}; complete -C{typed}"


@pytest.fixture(scope="module")
def known() -> dict[str, KnownCommand]:
    return known_commands()


def run_shell(shell: str, program: str, folder: Path) -> list[str]:
    if not (path := shutil.which(shell)):
        missing(f"the shell {shell}", shell)
    done = subprocess.run([path, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=folder)
    assert done.stderr == ""
    return done.stdout.split("\n")


def completed(shell: str, script: Path, typed: str) -> list[str]:
    """What fits the last word."""
    words = typed.split()
    if shell == "fish":
        lines = run_shell(shell, FISH.format(script=script, typed=shlex.quote(typed)), script.parent)
    else:
        text = {"bash": BASH, "zsh": ZSH}[shell]
        lines = run_shell(shell, text.format(script=script, typed=shlex.join(words), at=len(words) - 1), script.parent)
    offered = [line.split("\t")[0].split(":")[0] for line in lines]
    return [word for word in offered if word.startswith(words[-1])]


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_subcommands_and_options(shell, known, tmp_path):
    script = tmp_path / "ratchet"
    script.write_text(write_script(shell, known))
    assert {typed: completed(shell, script, typed) for typed in TYPED} == TYPED


def test_options_of_djangos_own_are_left_out(known):
    assert "--traceback" not in known["train_dpo"].words
    assert {"--agent", "--json", "--help"} <= set(known["train_dpo"].words)
