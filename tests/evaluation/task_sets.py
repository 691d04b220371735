"""Sets of tasks for agents with tools, and versions that learned from them."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rl.config import AgentConfig
from rl.environments.settings import EnvironmentSettings
from rl.models import Agent, ModelVersion, TrainingRun, TrainingSet
from rl.versions import versions
from tests.evaluation.pair_sets import write_set
from tests.training.agents import task

EVEN = EnvironmentSettings("tests.training.worlds:Even", {"rounds": 2})
CONFIG = AgentConfig().with_overrides({"max_length": 256, "max_new_tokens": 8, "environment": asdict(EVEN)})


def task_set(
    agent: Agent,
    train: Sequence[int],
    held_out: Sequence[int],
    *,
    digest: str = "0",
    settings: EnvironmentSettings = EVEN,
    **fields: Any,
) -> TrainingSet:
    """``fields``: of each task."""
    rows, train_rows = ([task(number, **fields) for number in numbers] for numbers in (held_out, train))
    values = {"method": "agent", "content_hash": digest * 64, "stats": {"environment": asdict(settings)}}
    return write_set(agent, rows, train_rows, train_rows=len(train), feedback_count=0, **values)


def version_from(
    agent: Agent, name: str, base: Path | str, learned_from: TrainingSet, adapter: Path | None = None
) -> ModelVersion:
    version = ModelVersion.objects.create(agent=agent, name=name, base_model=str(base), feedback_count=0)
    TrainingRun.objects.create(
        agent=agent,
        method=learned_from.method,
        config=CONFIG.as_dict() if learned_from.method == "agent" else {},
        version=version,
        training_set=learned_from,
        state=TrainingRun.State.SUCCEEDED,
    )
    if adapter:
        shutil.copytree(adapter, versions.version_directory(version) / "adapter")
    return version
