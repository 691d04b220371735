import contextlib
import io
import sys
from collections import Counter

import pytest

from rl.demo.agent_tasks import CODE_TASKS, SEARCH_TASKS
from rl.environments.code_exec import CodeExecEnv
from rl.environments.contract import Action
from rl.environments.search import SearchEnv
from rl.environments.tasks import CodeTask, CodeTaskDataset, SearchTask, SearchTaskDataset
from rl.environments.tools.search import SearchDocuments

SPLITS = ("train", "eval")
CODE = [task for split in SPLITS for task in CodeTaskDataset.from_directory(CODE_TASKS, split)]
SEARCH = [task for split in SPLITS for task in SearchTaskDataset.from_directory(SEARCH_TASKS, split)]


@pytest.mark.parametrize(("kind", "folder"), [(CodeTaskDataset, CODE_TASKS), (SearchTaskDataset, SEARCH_TASKS)])
def test_held_out_tasks_are_new_members_of_known_families(kind, folder):
    train, held_out = (kind.from_directory(folder, split) for split in SPLITS)
    assert (len(train), len(held_out)) == (28, 12)
    assert {task.metadata["topic"] for task in held_out} == {task.metadata["topic"] for task in train}
    for tasks in (train, held_out):
        assert set(Counter(task.metadata["difficulty"] for task in tasks)) == {"easy", "medium", "hard"}


def test_no_task_is_there_twice():
    assert len({task.task_id for task in CODE + SEARCH}) == 80
    assert len({task.prompt for task in CODE}) == len({task.question for task in SEARCH}) == 40


@pytest.mark.process
@pytest.mark.parametrize("task", CODE, ids=lambda task: task.task_id)
def test_a_reference_solution_passes_its_tests_in_the_sandbox(task: CodeTask):
    assert len(task.tests) >= 3
    env = CodeExecEnv()
    env.reset(task.as_mapping())
    step = env.step(Action(f"```python\n{task.reference_solution}\n```"))
    assert step.info["success"], step.info["reason"]
    assert task.reference_solution.startswith(task.starter_code)


def printed(program: str, stdin: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Without the sandbox: these programs are ours. What one raises is one way to be wrong."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.suppress(ValueError, IndexError):
        exec(program, {})
    return output.getvalue().strip()


def test_no_solution_passes_the_tests_of_another_task_of_its_family(monkeypatch: pytest.MonkeyPatch):
    for task in CODE:
        for other in (each for each in CODE if each.metadata["topic"] == task.metadata["topic"]):
            passes = all(printed(other.reference_solution, t.input, monkeypatch) == t.output for t in task.tests)
            assert passes == (other is task), f"{other.task_id} on {task.task_id}"


@pytest.mark.parametrize("task", SEARCH, ids=lambda task: task.task_id)
def test_one_document_has_the_answer_and_the_obvious_queries_find_it(task: SearchTask):
    answer = task.answer.casefold()
    assert 3 <= len(task.documents) <= 6
    assert all(len(document) < 120 for document in task.documents)
    (right,) = [document for document in task.documents if answer in document.casefold()]
    assert answer not in task.question.casefold()
    assert SearchDocuments(task.documents).run(task.metadata["query"]).startswith(f"[1] {right}")
    by_question = SearchDocuments(task.documents).run(task.question).splitlines()
    found = by_question if task.metadata["difficulty"] == "hard" else by_question[:1]
    assert any(right in passage for passage in found)


def test_the_answer_that_was_found_is_right():
    env = SearchEnv()
    env.reset(SEARCH[0].as_mapping())
    assert env.step(Action(f"It is {SEARCH[0].answer}.")).info["success"]
