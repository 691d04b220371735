import json
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import BadFile, UsageError
from rl.data_formatter import jsonl
from rl.environments.tasks import (
    CodeTask,
    CodeTaskDataset,
    CodeTest,
    SearchTask,
    SearchTaskDataset,
    check_tasks,
    read_tasks,
)

GOOD = {"task_id": "a", "prompt": "Print 1.", "tests": [{"output": "1"}]}


@pytest.fixture
def file(tmp_path: Path):
    def write(*lines: Any) -> Path:
        path = tmp_path / "train.jsonl"
        path.write_bytes(b"\n".join(each if isinstance(each, bytes) else json.dumps(each).encode() for each in lines))
        return path

    return write


def test_tasks_are_read_in_order_and_blank_lines_are_skipped(file):
    path = file(b"", GOOD, b"  \t", {**GOOD, "task_id": "b"}, b"")
    assert read_tasks(path, CodeTask) == [CodeTask(name, "Print 1.", (CodeTest("1"),)) for name in "ab"]
    assert check_tasks(path, CodeTask) == []


def test_a_path_may_be_text_and_texts_may_be_of_any_script(file):
    path = file({"task_id": "s", "question": "¿Dónde?", "answer": "東京", "documents": ["🗼 東京"]})
    assert read_tasks(str(path), SearchTask) == [SearchTask("s", "¿Dónde?", "東京", ("🗼 東京",))]


def test_the_first_problem_names_file_line_and_field(file):
    path = file(GOOD, b"", {**GOOD, "task_id": "b", "tests": [{"output": "1", "timeout": -1}]}, {"task_id": 3})
    with pytest.raises(BadFile) as caught:
        read_tasks(path, CodeTask)
    assert caught.value.location == "line 3, field 'timeout' of test 1"
    assert str(caught.value).startswith(f"{path} (line 3, field 'timeout' of test 1): must be a positive number")


def test_a_task_id_that_comes_twice_is_refused_with_both_lines(file):
    path = file(GOOD, {**GOOD, "task_id": "b"}, b"", GOOD)
    with pytest.raises(BadFile) as caught:
        read_tasks(path, CodeTask)
    assert (caught.value.location, caught.value.problem) == (
        "line 4, field 'task_id'",
        "'a' is the task of line 1 already",
    )


def test_a_task_id_that_comes_twice_is_found_though_the_first_has_another_problem(file):
    problems = check_tasks(file({**GOOD, "prompt": ""}, GOOD, GOOD), CodeTask)
    assert [problem.location for problem in problems] == [
        "line 1, field 'prompt'",
        "line 2, field 'task_id'",
        "line 3, field 'task_id'",
    ]


@pytest.mark.parametrize(
    ("line", "where", "what"),
    [
        (b'{"task_id": ', "line 2, column 12", "not valid JSON"),
        (b'{"task_id": "\xff"}', "line 2", "can't decode byte 0xff"),
        (b'{"task_id": "\\ud83d"}', "line 2", "half of a surrogate pair"),
        (b"[" * 100_000, "line 2", "not valid JSON"),
        ([1], "line 2", "must be a JSON object, not a list"),
        (b"NaN", "line 2", "must be a JSON object, not a number"),
    ],
)
def test_a_line_that_is_no_json_object_is_named_and_the_next_is_checked_still(file, line: Any, where: str, what: str):
    first, last = check_tasks(file(GOOD, line, {**GOOD, "task_id": ""}), CodeTask)
    assert first.location == where
    assert what in first.problem
    assert last.location == "line 3, field 'task_id'"


def test_a_check_ends_with_a_line_that_is_too_long(file, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jsonl, "LONGEST_LINE", 2**20)
    (problem,) = check_tasks(file(GOOD, b"1" * (2**20 + 1), {}), CodeTask)
    assert str(problem).endswith("(line 2): longer than 1 MiB")


def test_a_check_has_the_first_problems_in_the_order_of_the_file(file):
    path = file(*({**GOOD, "task_id": str(number), "prompt": 0} for number in range(30)))
    assert [problem.location for problem in check_tasks(path, CodeTask)] == [
        f"line {number}, field 'prompt'" for number in range(1, 21)
    ]
    assert len(check_tasks(path, CodeTask, most=3)) == 3
    assert len(check_tasks(path, CodeTask, most=100)) == 30


@pytest.mark.parametrize("lines", [(), (b"", b"  ")])
def test_a_file_without_tasks_is_refused(file, lines):
    path = file(*lines)
    with pytest.raises(BadFile, match="has no tasks"):
        read_tasks(path, CodeTask)
    assert len(check_tasks(path, CodeTask)) == 1


def test_a_folder_or_nothing_at_all_is_refused(tmp_path: Path):
    with pytest.raises(BadFile, match="cannot be read: Is a directory"):
        read_tasks(tmp_path, CodeTask)
    with pytest.raises(BadFile, match="none.jsonl: cannot be read: No such file"):
        read_tasks(tmp_path / "none.jsonl", SearchTask)
    assert len(check_tasks(tmp_path, CodeTask)) == 1


def test_tasks_of_the_other_kind_are_refused(file):
    with pytest.raises(BadFile, match="field 'prompt'.*unknown; known: task_id, question"):
        read_tasks(file(GOOD), SearchTask)


def test_a_file_may_be_one_list(tmp_path):
    path = tmp_path / "train.json"
    path.write_text(json.dumps([GOOD, {**GOOD, "task_id": "b", "prompt": 3}, GOOD]))
    assert [problem.location for problem in check_tasks(path, CodeTask)] == [
        "task 2, field 'prompt'",
        "task 3, field 'task_id'",
    ]
    path.write_text(json.dumps([GOOD], indent=2))
    assert read_tasks(path, CodeTask) == [CodeTask("a", "Print 1.", (CodeTest("1"),))]


@pytest.mark.parametrize(
    ("content", "problem"),
    [("{}", "must be a list of tasks, not an object"), ("[", "not valid JSON: "), ("[]", "has no tasks")],
)
def test_what_is_not_a_list_of_tasks_is_refused(tmp_path, content: str, problem: str):
    path = tmp_path / "train.json"
    path.write_text(content)
    assert check_tasks(path, CodeTask)[0].problem.startswith(problem)


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
