"""One of the processes that train together; see ``follow.py``. ``torchrun worker.py FOLDER``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import django

from rl.base.errors import Interrupted, RatchetError, UsageError
from rl.base.files import write_text
from rl.base.leaves import leaf
from rl.base.records import Report, Scorer, silent
from rl.config import config_class
from rl.config.training_job import TrainingJob
from rl.lm import processes
from rl.runs.processes.follow import FAILURE, JOB, RESULT, STOP
from rl.training import method


def main(folder: Path) -> int:
    document = json.loads((folder / JOB).read_text(encoding="utf-8"))
    report = _reporter(folder) if processes.is_first() else silent
    try:
        _require_all(document["processes"])
        result = method(document["method"]).train(_job(document), report)
    except RatchetError as error:
        # Whichever fails first ends the others.
        write_text(folder / FAILURE, json.dumps({"type": type(error).__name__, "text": str(error)}))
        return error.exit_code
    if processes.is_first():
        result.save(folder / RESULT)
    return 0


def _require_all(expected: int | None) -> None:
    if expected and processes.count() != expected:
        raise UsageError(f"{expected} processes were asked for, and the launcher started {processes.count()}")


def _job(document: dict[str, Any]) -> TrainingJob:
    values = document["job"]
    return TrainingJob(
        train_rows=Path(values["train_rows"]),
        heldout_rows=Path(values["heldout_rows"]) if values["heldout_rows"] else None,
        base_model=values["base_model"],
        output_dir=Path(values["output_dir"]),
        resume=values["resume"],
        scorer=_scorer(document["scorer"]),
        reward_model=Path(values["reward_model"]) if values["reward_model"] else None,
        config=config_class(document["method"])(**values["config"]),
    )


def _scorer(described: dict[str, Any] | None) -> Scorer | None:
    """The agent's rewards are in the database."""
    if described is None:
        return None
    django.setup()
    scorer: Scorer = getattr(leaf(described["module"]), described["name"])(**described["values"])
    return scorer


def _reporter(folder: Path) -> Report:
    stop = folder / STOP

    def report(event: str, values: dict[str, Any]) -> None:
        print(json.dumps({"event": event, "values": values}), flush=True)  # noqa: T201  the launcher reads it
        if stop.exists():
            raise Interrupted(stop.read_text(encoding="utf-8"))

    return report


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
