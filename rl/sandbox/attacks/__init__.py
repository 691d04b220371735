"""Attacks on the sandbox, as data: small programs that try to harm this machine and say so when they could.

``manage.py sandbox check`` tries all of them here; the tests try them with every backend.
"""

# ruff: noqa: F401  for others to import from here
from typing import Final

from rl.sandbox.attacks import files, kernel, memory, network, processes, secrets
from rl.sandbox.attacks.attack import Attack, AttackResult

AREAS: Final[dict[str, tuple[Attack, ...]]] = {
    "memory and processes": memory.ATTACKS,
    "disk and output": files.ATTACKS,
    "secrets": secrets.ATTACKS,
    "network": network.ATTACKS,
    "other processes and time": processes.ATTACKS,
    "kernel": kernel.ATTACKS,
}
ATTACKS: Final = tuple(attack for area in AREAS.values() for attack in area)
