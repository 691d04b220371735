"""The tiny base model, built once, and preference rows for it."""

import gc
import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import Interrupted
from rl.base.records import Report, TrainingResult, silent
from rl.config import DPOConfig
from rl.config.training_job import TrainingJob
from rl.lm import checkpoints
from tests.forkserver import SERVER

Row = dict[str, Any]


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def row(prompt: str, chosen: str, rejected: str) -> Row:
    return {
        "prompt": [message("user", prompt)],
        "chosen": [message("assistant", chosen)],
        "rejected": [message("assistant", rejected)],
        "prompt_key": prompt,
    }


def polite_rows(count: int = 12) -> list[Row]:
    """The chosen answer thanks, the rejected one waits; both are equally long."""
    return [
        row(f"Question number {i}?", f"Thank you, open page {i}.", f"Perhaps it, wait page {i}.") for i in range(count)
    ]


def scored_rows(count: int = 12) -> list[Row]:
    """One answer to each prompt: those that thank have high scores, those that wait have low ones."""
    high, low = (0.9, 0.75, 1.0), (0.1, 0.25, 0.0)
    rows = []
    for number, pair in enumerate(polite_rows(count)):
        name, scores = ("rejected", low) if number % 2 else ("chosen", high)
        prompt = {field: pair[field] for field in ("prompt", "prompt_key")}
        rows.append({**prompt, "completion": pair[name], "score": scores[number % 3]})
    return rows


def mixed_rows(count: int = 12) -> list[Row]:
    """Half of them pairs."""
    return polite_rows(count)[: count // 2] + scored_rows(count)[count // 2 :]


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in rows))
    return path


SMALL: dict[str, Any] = {
    "epochs": 2.0,
    "batch_size": 4,
    "gradient_accumulation": 1,
    "learning_rate": 1e-3,
    "lora_r": 4,
    "lora_alpha": 8,
    "lora_dropout": 0.1,
    "max_length": 128,
    "save_steps": 100,
    "most_kl": 0,
}
"""Twelve rows make six steps."""


def job(
    base: Path, folder: Path, rows: Sequence[Row] | None = None, resume: bool = False, **overrides: Any
) -> TrainingJob:
    folder.mkdir(parents=True, exist_ok=True)
    return TrainingJob(
        train_rows=write_rows(folder / "train.jsonl", polite_rows() if rows is None else rows),
        base_model=str(base),
        config=DPOConfig().with_overrides({**SMALL, **overrides}),
        output_dir=folder / "run",
        resume=resume,
    )


class Listener:
    """Keeps every event, and interrupts when step ``stop_at`` is reported."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.stop_at = stop_at

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        self.events.append((event, values))
        if event == "step" and values["metrics"] and values["step"] == self.stop_at:
            raise Interrupted("stopped by a test")

    @property
    def losses(self) -> dict[int, float]:
        return {v["step"]: v["metrics"]["loss"] for e, v in self.events if e == "step" and "loss" in v["metrics"]}

    @property
    def log(self) -> str:
        return "\n".join(values["text"] for event, values in self.events if event == "log")


def train_until_killed(train: Callable[[TrainingJob, Report], object], job: TrainingJob, step: int = 5) -> None:
    """Trains in a process of its own, which gets SIGKILL when ``step`` is reported."""
    process = SERVER.Process(target=_train_until, args=(train, job, step))
    process.start()
    process.join(1800)
    assert process.exitcode == -signal.SIGKILL


def _train_until(train: Callable[[TrainingJob, Report], object], job: TrainingJob, step: int) -> None:
    gc.freeze()  # the collector need not look through the libraries again

    def report(event: str, values: dict[str, Any]) -> None:
        if event == "step" and values["metrics"] and values["step"] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    train(job, report)


def stop_and_go_on(
    train: Callable[[TrainingJob, Report], TrainingResult], job: TrainingJob, report: Report = silent, step: int = 2
) -> TrainingResult:
    """What comes of a training that is stopped after ``step``, where it leaves a checkpoint, and is resumed."""
    with pytest.raises(Interrupted, match="stopped by a test"):
        train(job, Listener(stop_at=step))
    assert checkpoints.newest_complete(job.output_dir) == job.output_dir / f"checkpoint-{step}"
    assert not any((job.output_dir / name).exists() for name in ("adapter", "model"))
    return train(replace(job, resume=True), report)


def kill_and_go_on(
    train: Callable[[TrainingJob, Report], TrainingResult], job: TrainingJob, report: Report = silent, step: int = 5
) -> TrainingResult:
    train_until_killed(train, job, step)
    return train(replace(job, resume=True), report)


def weights(result: TrainingResult) -> dict[str, Any]:
    from safetensors.torch import load_file

    files = result.weights_dir.glob("*.safetensors")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def same_weights(left: TrainingResult, right: TrainingResult) -> bool:
    import torch

    first, second = weights(left), weights(right)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def picture(result: TrainingResult, method: str) -> None:
    """The method's picture in the documentation; ``UPDATE_SCREENSHOTS=1`` draws it."""
    from rl.runs.report.drawing import draw

    if os.environ.get("UPDATE_SCREENSHOTS"):
        draw(result, Path(__file__).parents[2] / "docs" / "images" / f"{method}.png", f"{method} on the tiny model")
