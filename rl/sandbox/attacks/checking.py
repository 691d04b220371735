"""Tries attacks on this machine, with the backends that it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from rl.base.errors import SandboxUnavailable
from rl.sandbox.attacks import ATTACKS, Attack, AttackResult
from rl.sandbox.attacks.world import World
from rl.sandbox.backends import run
from rl.sandbox.contract import Result

_THREADS: Final = 2
_LATE_SECONDS: Final = 10.0
"""How much longer than its wall-clock limit a run may take on a busy machine."""


def try_all(backend: str, attacks: Sequence[Attack] = ATTACKS) -> Iterator[AttackResult]:
    """Results of the attacks, in the order given; two are tried at a time."""
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(lambda attack: AttackResult(attack, backend, "; ".join(evidence(attack, backend))), attacks)


def evidence(attack: Attack, backend: str) -> list[str]:
    """What speaks against the box: what was won, seen from inside or outside, or that the program did not run."""
    findings: list[str] = []
    with World() as world:
        facts = world.facts(attack.language)
        for _ in range(attack.runs):
            try:
                result = run(attack.code(), attack.language, facts, attack.limits, backend=backend)
            except SandboxUnavailable as error:
                return [f"the box broke: {error}"]
            findings += _inspect(result, attack)
        return findings + world.damage()


def _inspect(result: Result, attack: Attack) -> Iterator[str]:
    if not result.stdout.startswith("ran"):
        yield f"the program did not run (exit {result.exit}): {result.stderr[-200:]}"
    yield from (line for line in result.stdout.splitlines() if line.startswith("WON"))
    if max(len(result.stdout), len(result.stderr)) > attack.limits.output_bytes:
        yield "more output was kept than allowed"
    if result.duration > attack.limits.wall_seconds + _LATE_SECONDS:
        yield f"it ran for {result.duration:.1f} s"
