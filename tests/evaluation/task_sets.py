"""Sets of tasks for agents with tools, and versions that learned from them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rl.config import AgentConfig
from rl.environments.settings import EnvironmentSettings
from rl.models import Agent, ModelVersion, TrainingRun, TrainingSet
from rl.versions import versions
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
    training_set = TrainingSet.objects.create(
        agent=agent,
        method="agent",
        content_hash=digest * 64,
        train_rows=len(train),
        heldout_rows=len(held_out),
        feedback_count=0,
        val_split=0.2,
        stats={"environment": asdict(settings)},
    )
    training_set.directory.mkdir(parents=True)
    for name, numbers in (("train", train), ("heldout", held_out)):
        lines = (json.dumps(task(number, **fields)) + "\n" for number in numbers)
        (training_set.directory / f"{name}.jsonl").write_text("".join(lines))
    return training_set


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
