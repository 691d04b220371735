"""Training that runs out of memory starts again one step smaller: first with fewer rows in a forward pass and as many passes
more, so that every optimiser step sees the same rows, then with recomputed activations.

A retry goes on from the newest checkpoint. How far down a run is stands in its folder, so that a later attempt, after a
crash or a cancel, begins where the last one fitted.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from rl.base.errors import OutOfMemory, TrainingFailed
from rl.base.files import write_text
from rl.base.leaves import leaf
from rl.base.records import Report, TrainingResult
from rl.config import TrainingConfig
from rl.config.training_job import TrainingJob

RESOURCES = "rl.lm.resources"

Train = Callable[[TrainingJob, Report], TrainingResult]


def train_within_memory(train: Train, job: TrainingJob, report: Report, least_rows: int) -> TrainingResult:
    """The result of ``train``; its ``changed`` says what was not as the job asked. ``least_rows``: the method's.

    Raises TrainingFailed at the bottom of the ladder, and otherwise what ``train`` raises.
    """
    rungs = [job.config, *smaller(job.config, least_rows)]
    steps_down, resume, file = 0, job.resume, job.output_dir / "memory.json"
    if not resume:
        file.unlink(missing_ok=True)
    elif file.exists():
        steps_down = min(int(json.loads(file.read_text(encoding="utf-8"))["steps_down"]), len(rungs) - 1)
    while True:
        changed = _changed_settings(job.config, rungs[steps_down])
        result = _try(train, replace(job, config=rungs[steps_down], resume=resume), _with_changes(report, changed))
        if isinstance(result, TrainingResult):
            return replace(result, changed=changed)
        if steps_down + 1 == len(rungs):
            raise TrainingFailed(_bottom(rungs[-1], result))
        steps_down, resume = steps_down + 1, True
        write_text(file, json.dumps({"steps_down": steps_down}))
        less = _changed_settings(job.config, rungs[steps_down]).items()
        report("log", {"text": f"{result}: once more with {', '.join(f'{name} {value}' for name, value in less)}"})


def smaller(config: TrainingConfig, least_rows: int = 1) -> Iterator[TrainingConfig]:
    """The steps of the ladder, each below the one before."""
    while (less := config.with_smaller_passes(least_rows)) is not None:
        yield less
        config = less
    if not config.activation_checkpointing:
        yield replace(config, activation_checkpointing=True)


def _try(train: Train, job: TrainingJob, report: Report) -> TrainingResult | str:
    """The result, or what ran out. The error itself would keep the whole model alive: its traceback names every frame."""
    resources = leaf(RESOURCES)
    try:
        with resources.resource_advice():
            return train(job, report)
    except OutOfMemory as error:
        shortage = error.shortage
    resources.release_memory()
    return shortage


def _changed_settings(asked: TrainingConfig, used: TrainingConfig) -> dict[str, Any]:
    before = asked.as_dict()
    return {name: value for name, value in used.as_dict().items() if value != before[name]}


def _with_changes(report: Report, changed: dict[str, Any]) -> Report:
    """Puts what was changed among the metrics of each step."""
    figures = {name: float(value) for name, value in changed.items()}

    def tell(event: str, values: dict[str, Any]) -> None:
        if event == "step" and figures and values.get("metrics"):
            values = {**values, "metrics": {**values["metrics"], **figures}}
        report(event, values)

    return tell


def _bottom(config: TrainingConfig, what: str) -> str:
    rows = f"{config.rows_a_pass} row{'s' if config.rows_a_pass > 1 else ''}"
    adapter = "train an adapter instead of all weights, " if config.full else ""
    return (
        f"{what}, with {rows} in a forward pass and recomputed activations: lower max_length ({config.max_length}), "
        f"{adapter}choose a smaller base model, or train on a machine with more memory"
    )
