"""Jobs of the method "agent" for the tiny model, and what they tell."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl.base.records import TrainingResult
from rl.config import AgentConfig
from rl.config.training_job import TrainingJob
from tests.training.conftest import SMALL, Listener, Row, message, write_rows

Run = tuple[TrainingResult, Listener]
SHORT: dict[str, Any] = {
    **SMALL,
    "epochs": 1.0,
    "batch_size": 8,
    "learning_rate": 3e-3,
    "num_generations": 4,
    "max_new_tokens": 12,
    "max_length": 192,
    "eval_interval": 0,
}
"""Twelve tasks, two a step with four episodes each: six steps."""


def world(name: str, **options: Any) -> dict[str, Any]:
    return {"type": f"tests.training.worlds:{name}", "options": options}


PATIENT, READER = world("Patient"), world("Reader")


def task(number: int, words: int = 1, **more: Any) -> Row:
    key = str(number)
    asked = f"Question number {number}?" * words
    fields = {"task_id": f"t{number}", "number": number, **more}
    return {"prompt": [message("user", asked)], "prompt_key": key, "split_key": key, "task": fields}


def tasks(count: int = 12, start: int = 0) -> list[Row]:
    return [task(number) for number in range(start, start + count)]


HELD_OUT = tasks(5, start=20)


def job(
    base: Path,
    folder: Path,
    rows: Sequence[Row] | None = None,
    held_out: Sequence[Row] = (),
    *,
    resume: bool = False,
    **overrides: Any,
) -> TrainingJob:
    folder.mkdir(parents=True, exist_ok=True)
    return TrainingJob(
        train_rows=write_rows(folder / "train.jsonl", tasks() if rows is None else rows),
        heldout_rows=write_rows(folder / "heldout.jsonl", held_out),
        base_model=str(base),
        config=AgentConfig().with_overrides({**SHORT, "environment": PATIENT, **overrides}),
        output_dir=folder / "run",
        resume=resume,
    )


def episodes(listener: Listener, split: str = "train") -> list[dict[str, Any]]:
    """As documents, in the order in which they were told."""
    reports = [values["episodes"] for event, values in listener.events if event == "episodes"]
    return [episode for documents in reports for episode in documents if episode["split"] == split]


def metrics(listener: Listener) -> dict[int, dict[str, float]]:
    """Of each step."""
    return {v["step"]: v["metrics"] for event, v in listener.events if event == "step" and v["metrics"]}


def whole(base: Path, folder: Path) -> Run:
    """A training to its end, with three of the held-out tasks tried every four steps."""
    from rl.training.agent import train as agent

    listener = Listener()
    return agent.train(job(base, folder, None, HELD_OUT, eval_interval=4, eval_tasks=3), listener), listener
