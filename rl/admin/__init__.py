"""One file per area. Records of what happened are read-only; agents, experiments and keys are edited."""

from __future__ import annotations

from rl.admin import (
    access,
    agents,
    episodes,
    experiments,
    feedback,
    labels,
    serving,
    signin,
    traces,
    training,
    versions,
)

__all__ = [
    "access",
    "agents",
    "episodes",
    "experiments",
    "feedback",
    "labels",
    "serving",
    "signin",
    "traces",
    "training",
    "versions",
]
