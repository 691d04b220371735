"""What a run on pairs leaves behind: a training set with held-out pairs, and a version."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl.base.measurements import PairScore
from rl.config import TrainingConfig
from rl.models import Agent, ModelVersion, TrainingRun, TrainingSet
from rl.versions import versions
from tests.evaluation.conftest import Row

MAX_LENGTH = 128


def score_pairs(base_model: str, adapter: Path | None, pairs: Sequence[Row], **options: Any) -> list[PairScore | None]:
    """By one model; without an adapter, by the base model itself."""
    from rl.evaluation.torch.scoring import score_versions

    return score_versions(base_model, {"only": adapter}, pairs, **options)["only"]


def write_set(agent: Agent, rows: Sequence[Row], train: Sequence[Row] = (), **fields: Any) -> TrainingSet:
    """``rows``: those held out."""
    values = {
        "method": "dpo",
        "content_hash": "0" * 64,
        "train_rows": 1,
        "feedback_count": 20,
        "val_split": 0.2,
        **fields,
    }
    made = TrainingSet.objects.create(agent=agent, heldout_rows=len(rows), **{"stats": {"prompts": 10}, **values})
    made.directory.mkdir(parents=True)
    for name, of_file in (("train", train), ("heldout", rows)):
        (made.directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in of_file))
    return made


def pair_set(agent: Agent, rows: Sequence[Row]) -> TrainingSet:
    """Each row to a prompt of its own."""
    keyed = [{**row, "prompt_key": f"q{number}", "split_key": f"q{number}"} for number, row in enumerate(rows)]
    return write_set(agent, keyed)


def version_on(agent: Agent, base: Path, adapter: Path, name: str = "v1") -> ModelVersion:
    made = ModelVersion.objects.create(agent=agent, name=name, base_model=str(base), feedback_count=4)
    config = TrainingConfig().with_overrides({"max_length": MAX_LENGTH}).as_dict()
    TrainingRun.objects.create(agent=agent, config=config, version=made, state=TrainingRun.State.SUCCEEDED)
    shutil.copytree(adapter, versions.version_directory(made) / "adapter")
    return made
