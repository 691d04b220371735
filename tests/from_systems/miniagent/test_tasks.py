import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rl.environments import CodeExecEnv
from rl.from_systems import miniagent
from rl.from_systems.miniagent import CodeTaskDataset, CodeTaskSampler, SearchTaskDataset, load_code_task_dataset
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


TASKS = [{"task_id": f"t{n}", "prompt": f"Print {n}.", "tests": [{"output": str(n)}]} for n in range(5)]
IN_ORDER = [task["task_id"] for task in TASKS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split in ("train", "eval"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, TASKS)))
    return tmp_path


def ids(tasks: list[dict]) -> list[str]:
    return [task["task_id"] for task in tasks]


def test_without_a_shuffle_the_tasks_come_in_order_again_and_again(folder: Path):
    sampler = CodeTaskSampler(CodeTaskDataset.from_path(folder, split="train"), shuffle=False)
    assert ids(sampler.next(3)) + ids(sampler.next(4)) == [*IN_ORDER, *IN_ORDER[:2]]
    assert CodeExecEnv().reset(sampler.next()[0])[-1]["content"].startswith("Print 2.")


def test_each_pass_has_every_task_once_in_an_order_of_its_own(folder: Path):
    dataset = load_code_task_dataset(folder)["train"]
    first, second = (ids(CodeTaskSampler(dataset, seed=7).next(10)) for _ in range(2))
    assert first == second
    assert sorted(first[:5]) == sorted(first[5:]) == IN_ORDER
    assert first[:5] != first[5:]
    batches = CodeTaskSampler(dataset, seed=7).iter_batches(5)
    assert [task for batch in islice(batches, 2) for task in ids(batch)] == first
    assert ids([next(iter(CodeTaskSampler(dataset, seed=7)))[0]]) == first[:1]


def test_what_cannot_be_sampled_is_refused(folder: Path):
    with pytest.raises(ValueError, match="batch_size must be 1 or more, not 0"):
        CodeTaskSampler(CodeTaskDataset.from_path(folder)).next(0)
    with pytest.raises(ValueError, match="no tasks"):
        CodeTaskSampler(CodeTaskDataset([]))


def test_the_other_names_are_there():
    assert miniagent.SearchTaskDataset is SearchTaskDataset
    with pytest.raises(AttributeError):
        miniagent.nothing  # noqa: B018
