"""Configuration files and tasks for ``train_agent``, and what comes of it."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

EVEN = "tests.training.worlds:Even"
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, tiny_base: Path) -> Write:
    """A file with the sections given over those of a search agent that learns in two steps."""

    def of(name: str = "asker.yaml", **sections: Any) -> Path:
        document = {
            "model": {"name": str(tiny_base), "dtype": "float32"},
            "policy": {"max_new_tokens": 4, "temperature": 0.9},
            "env": {"type": "search", "max_turns": 2},
            "rollout": {"num_episodes_per_iter": 4, "num_generations": 2},
            "train": {"num_iters": 2, "lr": 1e-3, "lora_r": 2},
            "eval": {"eval_interval": 1, "num_tasks": 3},
        }
        path = tmp_path / name
        path.write_text(yaml.safe_dump(document | sections), encoding="utf-8")
        return path

    return of


@pytest.fixture
def own_tasks(tmp_path: Path) -> Write:
    """A folder with a line for each task."""

    def of(**splits: list[Any]) -> Path:
        folder = tmp_path / "tasks"
        folder.mkdir(exist_ok=True)
        for name, tasks in splits.items():
            lines = (task if isinstance(task, str) else json.dumps(task) for task in tasks)
            (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return folder

    return of


def question(number: int) -> dict[str, Any]:
    return {"task_id": f"q{number}", "question": f"What is {number}?", "answer": str(number), "documents": ["It is."]}


def trained(path: Path | None, *options: str) -> dict[str, Any]:
    output, config = StringIO(), ("--config", str(path)) if path else ()
    call_command("train_agent", *config, *options, "--json", stdout=output, verbosity=0)
    document: dict[str, Any] = json.loads(output.getvalue())
    return document


def refused(*options: str, code: int = 2) -> str:
    """The one line with which the command ends."""
    with pytest.raises(CommandError) as refusal:
        call_command("train_agent", *options, verbosity=0)
    assert refusal.value.returncode == code
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def planned(path: Path, *options: str) -> dict[str, Any]:
    return trained(path, "--dry-run", *options)
