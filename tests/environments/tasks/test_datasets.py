from __future__ import annotations

import json
from pathlib import Path

import pytest

from rl.base.errors import BadFile, UsageError
from rl.environments.tasks import CodeTaskDataset, SearchTask, SearchTaskDataset

TASKS = [SearchTask(str(number), "Which?", "this") for number in range(20)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, tasks in (("train", TASKS), ("eval", TASKS[:3])):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(json.dumps(task.as_mapping()) for task in tasks))
    (tmp_path / "notes.txt").write_text("no split")
    return tmp_path


def test_a_split_is_read(folder: Path):
    assert list(SearchTaskDataset.from_directory(folder)) == TASKS
    assert list(SearchTaskDataset.from_directory(str(folder), "eval")) == TASKS[:3]


def test_a_file_is_read_by_its_path_and_its_tasks_go_into_an_environment(folder: Path):
    assert list(SearchTaskDataset.from_path(folder / "eval.jsonl")) == TASKS[:3]
    assert list(SearchTaskDataset.from_path(str(folder), split="eval")) == TASKS[:3]
    assert SearchTaskDataset.from_path(folder / "eval.jsonl")[0].to_env_task() == TASKS[0].as_mapping()


@pytest.mark.parametrize("split", ["test", "../train", "notes", ""])
def test_a_split_that_is_not_there_is_refused_with_those_that_are(folder: Path, split: str):
    with pytest.raises(UsageError, match=f"has no split '{split}'; there are: eval, train$"):
        SearchTaskDataset.from_directory(folder, split)


def test_a_folder_without_splits_or_no_folder_is_refused(folder: Path):
    with pytest.raises(UsageError, match=r"notes.txt is not a folder"):
        SearchTaskDataset.from_directory(folder / "notes.txt")
    (folder / "empty").mkdir()
    with pytest.raises(UsageError, match="it has no .jsonl file at all"):
        SearchTaskDataset.from_directory(folder / "empty")


def test_what_is_wrong_in_a_file_is_said_as_the_reader_says_it(folder: Path):
    with pytest.raises(BadFile, match=r"train.jsonl \(line 1, field 'question'\): unknown"):
        CodeTaskDataset.from_directory(folder)


def test_a_dataset_is_a_sequence():
    tasks = SearchTaskDataset(TASKS)
    assert (len(tasks), tasks[3], tasks[-1], TASKS[5] in tasks) == (20, TASKS[3], TASKS[19], True)
    assert isinstance(tasks[2:4], SearchTaskDataset)
    assert list(tasks[2:4]) == TASKS[2:4]
    with pytest.raises(IndexError):
        tasks[20]


def test_a_seed_decides_the_order_and_the_first_dataset_keeps_its_own():
    tasks = SearchTaskDataset(TASKS)
    shuffled = tasks.shuffle(1)
    assert list(shuffled) == list(tasks.shuffle(1)) != list(tasks.shuffle(2))
    assert sorted(shuffled, key=lambda task: int(task.task_id)) == list(tasks) == TASKS


def test_some_are_taken_from_the_front():
    tasks = SearchTaskDataset(TASKS)
    assert list(tasks.take(2)) == TASKS[:2]
    assert len(tasks.take(0)) == 0
    assert len(tasks.take(99)) == 20
    with pytest.raises(UsageError, match="0 or more, not -1"):
        tasks.take(-1)
