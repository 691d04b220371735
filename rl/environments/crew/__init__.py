"""Many episodes at once, in this process or in several. No Django, no torch."""

# ruff: noqa: F401  for others to import from here
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rl.base.leaves import import_name
from rl.environments.crew.stage import Crew, Here, Move, Opening
from rl.environments.crew.workers import SILENCE_SECONDS, Workers
from rl.environments.settings import EnvironmentSettings

if TYPE_CHECKING:
    from rl.environments.program.programs import Programs

PROGRAM = "program"
"""The environment whose episodes go by themselves."""


def crew(
    settings: EnvironmentSettings,
    workers: int,
    alive: Callable[[], None] = lambda: None,
    silence_seconds: float = SILENCE_SECONDS,
) -> Crew | Programs:
    """Programs where the environment's episodes go by themselves. ``workers``: processes; 0: here, one environment after
    the other. ``alive`` is called about twice a second while there is something to wait for, in this process between two
    environments; what it raises closes the crew. A worker from which nothing is heard for ``silence_seconds`` is
    stopped."""
    if settings.type == PROGRAM:
        # imported on first use: workers have nothing to do with it, and start the sooner
        programs: Programs = import_name("rl.environments.program.programs.Programs")(settings.build(), workers, alive)
        return programs
    return Workers(settings, workers, alive, silence_seconds) if workers else Here(settings, alive)
