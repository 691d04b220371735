"""Many episodes at once, in this process or in several. No Django, no torch."""

from __future__ import annotations

from collections.abc import Callable

from rl.environments.crew.contract import Crew, Move, Opening
from rl.environments.crew.here import Here
from rl.environments.crew.workers import SILENCE_SECONDS, Workers
from rl.environments.settings import EnvironmentSettings

__all__ = ["Crew", "Move", "Opening", "crew"]


def crew(
    settings: EnvironmentSettings,
    workers: int,
    alive: Callable[[], None] = lambda: None,
    silence_seconds: float = SILENCE_SECONDS,
) -> Crew:
    """``workers``: processes; 0: here, one environment after the other. ``alive`` is called about twice a second while there
    is something to wait for, in this process between two environments; what it raises closes the crew. A worker from which
    nothing is heard for ``silence_seconds`` is stopped."""
    return Workers(settings, workers, alive, silence_seconds) if workers else Here(settings, alive)
