"""What a run on pairs leaves behind: a training set with held-out pairs, and a version."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from rl.config import TrainingConfig
from rl.models import Agent, ModelVersion, TrainingRun, TrainingSet
from rl.versions import versions
from tests.evaluation.conftest import Row

MAX_LENGTH = 128


def pair_set(agent: Agent, rows: Sequence[Row]) -> TrainingSet:
    """Each row to a prompt of its own."""
    made = TrainingSet.objects.create(
        agent=agent,
        method="dpo",
        content_hash="0" * 64,
        train_rows=1,
        heldout_rows=len(rows),
        feedback_count=20,
        val_split=0.2,
        stats={"prompts": 10},
    )
    made.directory.mkdir(parents=True)
    keyed = [{**row, "prompt_key": f"q{number}", "split_key": f"q{number}"} for number, row in enumerate(rows)]
    (made.directory / "train.jsonl").write_text("")
    (made.directory / "heldout.jsonl").write_text("".join(json.dumps(row) + "\n" for row in keyed))
    return made


def version_on(agent: Agent, base: Path, adapter: Path, name: str = "v1") -> ModelVersion:
    made = ModelVersion.objects.create(agent=agent, name=name, base_model=str(base), feedback_count=4)
    config = TrainingConfig().with_overrides({"max_length": MAX_LENGTH}).as_dict()
    TrainingRun.objects.create(agent=agent, config=config, version=made, state=TrainingRun.State.SUCCEEDED)
    shutil.copytree(adapter, versions.version_directory(made) / "adapter")
    return made
