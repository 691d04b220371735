from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rl.from_systems.miniagent.tasks import are_miniagents

TASK = {"task_id": "t", "prompt": "Print 1.", "tests": [{"output": "1"}]}


def folder_of(path: Path, **fields: Any) -> Path:
    (path / "train.jsonl").write_text(json.dumps({**TASK, **fields}) + "\n")
    return path


@pytest.mark.parametrize("marker", ["All tests passed.", "PASS"])
def test_a_text_that_marks_success_is_miniagents(tmp_path: Path, marker: str):
    folder = folder_of(tmp_path, reference_solution=marker, ground_truth="print(1)")
    assert are_miniagents(folder, "train")
    assert are_miniagents(folder_of(tmp_path, tests=[], reference_solution=marker), "train")


def test_a_program_is_ours(tmp_path: Path):
    assert not are_miniagents(folder_of(tmp_path, reference_solution="print(1)"), "train")
    assert not are_miniagents(folder_of(tmp_path), "train")


def test_what_cannot_be_read_is_told_by_others(tmp_path: Path):
    assert not are_miniagents(tmp_path, "train")
    assert not are_miniagents(folder_of(tmp_path, prompt=3), "train")
