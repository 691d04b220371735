"""Attacks on the sandbox, as data: small programs that try to harm this machine and say so when they could. They stand in
``programs``, a file an area.

``manage.py sandbox check`` tries all of them here; the tests try them with every backend."""

from dataclasses import replace
from typing import Final

from rl.sandbox.attacks.attack import SMALL, Attack, AttackResult, read_attacks  # noqa: F401  for others to import

_SHORT: Final = replace(SMALL, wall_seconds=0.5)

AREAS: Final[dict[str, tuple[Attack, ...]]] = {
    "memory and processes": read_attacks("memory"),
    "disk and output": read_attacks("files", leave_for_next_run={"runs": 2}),
    "secrets": read_attacks("secrets"),
    "network": read_attacks("network"),
    "other processes and time": read_attacks(
        "processes",
        outlive_by_nohup={"language": "shell"},
        sleep_for_ever={"limits": _SHORT},
        ignore_signals={"limits": _SHORT},
        burn_cpu={"limits": replace(SMALL, cpu_seconds=1)},
        burn_cpu_unseen={"limits": replace(SMALL, cpu_seconds=1, wall_seconds=15)},
    ),
    "kernel": read_attacks("kernel"),
}
ATTACKS: Final = tuple(attack for area in AREAS.values() for attack in area)
