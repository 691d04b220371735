import json
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import BadFile, UsageError
from rl.dataset_builder import task_source
from rl.dataset_builder.read.agent_tasks import DEMO_TASKS
from rl.environments.settings import EnvironmentSettings
from rl.models import Agent

pytestmark = pytest.mark.django_db
SEARCH = EnvironmentSettings("search")


def question(number: int, **more: Any) -> dict[str, Any]:
    return {"task_id": f"q{number}", "question": f"What is {number}?", "answer": str(number), **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    splits = {"train": [question(1), question(2)], "eval": [question(3)], "some": [question(4, documents=["It is 4."])]}
    for name, tasks in splits.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return tmp_path


def ids(tasks: Any) -> list[str]:
    return [task["task_id"] for task in tasks]


@pytest.mark.parametrize("kind", DEMO_TASKS)
def test_some_environments_have_tasks_without_any_file(agent: Agent, kind: str):
    found = task_source(agent, EnvironmentSettings(kind))
    assert (len(found.train), len(found.held_out)) == (28, 12)
    assert not {*ids(found.train)} & {*ids(found.held_out)}
    assert (found.settings.type, found.name, found.remarks) == (kind, "tasks", ())
    assert all(EnvironmentSettings(kind).build().demonstration(task) for task in found.train), "a solution to imitate"


def test_the_splits_are_files_of_the_folder_in_their_order(agent: Agent, folder: Path):
    found = task_source(agent, SEARCH, str(folder))
    assert (ids(found.train), ids(found.held_out)) == (["q1", "q2"], ["q3"])
    found = task_source(agent, SEARCH, str(folder), "some", "train")
    assert (ids(found.train), ids(found.held_out)) == (["q4"], ["q1", "q2"])
    assert found.train[0] == question(4, documents=["It is 4."])


def test_without_a_split_to_be_measured_by_nothing_is_held_out(agent: Agent, folder: Path):
    (folder / "eval.jsonl").unlink()
    assert task_source(agent, SEARCH, str(folder), eval_split="").held_out == []
    with pytest.raises(UsageError, match="has no split 'eval'; there are: some, train"):
        task_source(agent, SEARCH, str(folder))


def test_an_environment_of_ones_own_reads_any_task_from_a_folder_that_is_named(agent: Agent, tmp_path: Path):
    own = EnvironmentSettings("tests.training.worlds:Patient")
    with pytest.raises(UsageError, match="say where the tasks of tests.training.worlds:Patient are by --dataset-dir"):
        task_source(agent, own)
    (tmp_path / "train.jsonl").write_text('{"task_id": "a", "number": 4}\n')
    assert task_source(agent, own, str(tmp_path), eval_split="").train == [{"task_id": "a", "number": 4}]


@pytest.mark.parametrize("split", ["train", "eval"])
def test_a_line_that_is_no_task_is_named(agent: Agent, folder: Path, split: str):
    with (folder / f"{split}.jsonl").open("a") as file:
        file.write('{"task_id": "b", "question": 7}\n')
    with pytest.raises(BadFile, match=rf"{split}.jsonl \(line \d, field 'question'\): must be text, not a number"):
        task_source(agent, SEARCH, str(folder))


def test_a_folder_that_is_not_there_is_told(agent: Agent, tmp_path: Path):
    with pytest.raises(UsageError, match="nowhere is not a folder"):
        task_source(agent, SEARCH, str(tmp_path / "nowhere"))
