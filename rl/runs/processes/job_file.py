"""The job of a training in several processes, as a file: the launcher writes it, and every worker reads it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import django

from rl.base.errors import UsageError
from rl.base.files import write_text
from rl.base.leaves import leaf
from rl.base.records import Scorer
from rl.config import config_class
from rl.config.training_job import TrainingJob

JOB = "job.json"


@dataclass(frozen=True, slots=True)
class SharedJob:
    method: str
    processes: int | None
    """Number of processes on all machines together; None where accelerate decides."""
    job: TrainingJob


def write_job(folder: Path, shared: SharedJob) -> None:
    """Raises UsageError for a scorer that cannot go to other processes."""
    job = shared.job
    document = {
        "method": shared.method,
        "processes": shared.processes,
        "job": {
            "train_rows": str(job.train_rows),
            "heldout_rows": str(job.heldout_rows) if job.heldout_rows else None,
            "base_model": job.base_model,
            "output_dir": str(job.output_dir),
            "resume": job.resume,
            "kind": job.kind,
            "reward_model": str(job.reward_model) if job.reward_model else None,
            "config": asdict(job.config),
        },
        "scorer": _describe_scorer(job.scorer),
    }
    write_text(folder / JOB, json.dumps(document))


def read_job(folder: Path) -> SharedJob:
    document = json.loads((folder / JOB).read_text(encoding="utf-8"))
    values = document["job"]
    job = TrainingJob(
        train_rows=Path(values["train_rows"]),
        heldout_rows=Path(values["heldout_rows"]) if values["heldout_rows"] else None,
        base_model=values["base_model"],
        output_dir=Path(values["output_dir"]),
        resume=values["resume"],
        kind=values["kind"],
        scorer=_make_scorer(document["scorer"]),
        reward_model=Path(values["reward_model"]) if values["reward_model"] else None,
        config=config_class(document["method"])(**values["config"]),
    )
    return SharedJob(document["method"], document["processes"], job)


def _describe_scorer(scorer: Scorer | None) -> dict[str, Any] | None:
    """From which the worker makes the same: a dataclass, with JSON in its fields."""
    if scorer is None:
        return None
    if not is_dataclass(scorer) or isinstance(scorer, type):
        raise UsageError(f"{scorer!r} cannot reward answers in other processes: it must be an instance of a dataclass")
    kind = type(scorer)
    return {"module": kind.__module__, "name": kind.__qualname__, "values": asdict(scorer)}


def _make_scorer(description: dict[str, Any] | None) -> Scorer | None:
    """The agent's rewards are in the database."""
    if description is None:
        return None
    django.setup()
    scorer: Scorer = getattr(leaf(description["module"]), description["name"])(**description["values"])
    return scorer
