"""One file per area. Records of what happened are read-only; agents, experiments and keys are edited.

Imports: base, config, dataset_builder, evaluation, forgetting, models, online_learner, operations, registered, rewards,
    serving; Django.
"""

from __future__ import annotations

from rl.admin import (
    access,
    agents,
    audit,
    episodes,
    experiments,
    feedback,
    labels,
    queue,
    raters,
    serving,
    traces,
    training,
    versions,
    webhooks,
)

__all__ = [
    "access",
    "agents",
    "audit",
    "episodes",
    "experiments",
    "feedback",
    "labels",
    "queue",
    "raters",
    "serving",
    "traces",
    "training",
    "versions",
    "webhooks",
]
