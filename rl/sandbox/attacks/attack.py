"""What an attack is: a small program, and what must not come of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rl.sandbox.contract import MIB, Limits

PRELUDES: Final = {
    "python": """\
import ctypes, json, os, sys, time
print("ran", flush=True)
facts = json.loads(sys.stdin.read())
libc = ctypes.CDLL(None)

def won(what):
    print("WON", what, flush=True)

def attempt(action, *arguments):
    try:
        return action(*arguments)
    except Exception:
        return None

""",
    "shell": "echo ran; read -r cookie\n",
}
"""The control first: a box that starts nothing blocks everything. ``facts`` are those of ``World.facts``."""

SMALL: Final = Limits(
    wall_seconds=3,
    cpu_seconds=2,
    memory_bytes=64 * MIB,
    processes=16,
    file_bytes=4 * MIB,
    disk_bytes=8 * MIB,
    files=500,
    output_bytes=64 * 1024,
)
"""Limits under which the attacks are tried. Programs of attacks know these numbers."""

_PROGRAMS: Final = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class Attack:
    """It is won when the program prints WON, and, whatever it prints, when the checker sees damage outside: a process that
    is left or gone, a changed file, a connection, more output or more time than allowed (checking.py)."""

    name: str
    must_not: str
    program: str
    language: str = "python"
    limits: Limits = SMALL
    runs: int = 1
    """How often it is run, in a new box each time, with the same facts."""

    def code(self) -> str:
        return PRELUDES[self.language] + self.program


def read_attacks(area: str, **options: Mapping[str, Any]) -> tuple[Attack, ...]:
    """Attacks as they stand one below the other in the area's file: a line ``### name: what must not be``, and then the
    program. ``options``: by name, the other fields of those that have any. Raises ValueError."""
    text = (_PROGRAMS / f"{area}.txt").read_text()
    before, *parts = re.split(r"^### (\w+): (.+)\n", text, flags=re.MULTILINE)
    attacks = tuple(
        Attack(name, must_not, program.strip("\n") + "\n", **options.get(name, {}))
        for name, must_not, program in zip(*(parts[start::3] for start in range(3)), strict=True)
    )
    if before.strip() or not options.keys() <= {attack.name for attack in attacks}:
        raise ValueError(f"{before!r} or one of {list(options)} is nothing of an attack")
    return attacks


@dataclass(frozen=True, slots=True)
class AttackResult:
    attack: Attack
    backend: str
    evidence: str
    """What was won, or that the program did not run; empty when the box held."""

    @property
    def held(self) -> bool:
        return not self.evidence

    def as_dict(self) -> dict[str, Any]:
        return {"attack": self.attack.name, "backend": self.backend, "held": self.held, "evidence": self.evidence}
