"""The tiny base model, built once, and preference rows for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rl.config import TrainingConfig
from rl.records import TrainingJob, silent

Row = dict[str, Any]


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from rl.training import tiny_model

    return tiny_model.build(tmp_path_factory.mktemp("base") / "tiny", silent)


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
}
"""Twelve rows make six steps."""


def job(
    base: Path, folder: Path, rows: Sequence[Row] | None = None, resume: bool = False, **overrides: Any
) -> TrainingJob:
    folder.mkdir(parents=True, exist_ok=True)
    return TrainingJob(
        train_rows=write_rows(folder / "train.jsonl", polite_rows() if rows is None else rows),
        base_model=str(base),
        config=TrainingConfig().with_overrides({**SMALL, **overrides}),
        output_dir=folder / "run",
        resume=resume,
    )
