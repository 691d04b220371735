from typing import Any

import pytest

from rl.base.errors import NotEnoughData, UsageError
from rl.dataset_builder import DataOptions, freeze, survey
from rl.dataset_builder.rows.tasks import TaskSource
from rl.environments.settings import EnvironmentSettings
from rl.models import Agent, prompt_key
from tests.dataset_builder.ratings import read_rows

pytestmark = pytest.mark.django_db
SETTINGS = EnvironmentSettings("search", {"max_turns": 3})


def task(number: int, question: str = "") -> dict[str, Any]:
    return {"task_id": f"q{number}", "question": question or f"What is {number}?", "answer": str(number)}


def source(
    train: list[dict[str, Any]], held_out: list[dict[str, Any]], settings: EnvironmentSettings = SETTINGS
) -> TaskSource:
    return TaskSource(settings, train, held_out)


def test_every_task_is_a_row_in_the_order_given_with_the_chat_that_it_begins_with(agent: Agent, data_dir):
    tasks = [task(number) for number in (3, 1, 2)]
    frozen = freeze(agent, DataOptions(), source(tasks, [task(9)]), method="agent")
    rows = read_rows(frozen, "train")
    assert [row["task"] for row in rows] == tasks
    assert [row["prompt"][-1]["content"] for row in rows] == ["What is 3?", "What is 1?", "What is 2?"]
    assert rows[0]["prompt"][0]["role"] == "system"
    assert all(row["prompt_key"] == row["split_key"] == prompt_key(row["prompt"]) for row in rows)
    assert [row["task"]["task_id"] for row in read_rows(frozen, "heldout")] == ["q9"]
    assert (frozen.method, frozen.source, frozen.train_rows, frozen.heldout_rows) == ("agent", "tasks", 3, 1)
    assert (frozen.feedback_count, frozen.val_split, frozen.stats["prompts"]) == (0, 0.25, 4)
    assert EnvironmentSettings(**frozen.stats["environment"]) == SETTINGS


def test_a_task_that_asks_what_another_asks_is_left_out_and_so_is_one_that_is_held_out(agent: Agent, data_dir):
    train = [task(1), task(2), task(3, "What is 2?"), task(4, "What is 9?")]
    held_out = [task(9), task(10, "What is 9?")]
    frozen = freeze(agent, DataOptions(), source(train, held_out), method="agent")
    assert [row["task"]["task_id"] for row in read_rows(frozen, "train")] == ["q1", "q2"]
    assert [row["task"]["task_id"] for row in read_rows(frozen, "heldout")] == ["q9"]
    assert frozen.stats["skipped"] == {"task asks what another asks": 2, "task is held out too": 1}


def test_the_same_tasks_in_the_same_environment_are_the_same_set(agent: Agent, data_dir):
    tasks = [task(1), task(2)]
    frozen = freeze(agent, DataOptions(), source(tasks, []), method="agent")
    assert freeze(agent, DataOptions(), source(tasks, []), method="agent") == frozen
    assert freeze(agent, DataOptions(), source(tasks[::-1], []), method="agent") != frozen


def test_another_environment_makes_another_set_whose_versions_are_measured_in_it(agent: Agent, data_dir):
    tasks = [task(1), task(2)]
    frozen = freeze(agent, DataOptions(), source(tasks, []), method="agent")
    longer = EnvironmentSettings("search", {"max_turns": 7})
    other = freeze(agent, DataOptions(), source(tasks, [], longer), method="agent")
    assert other != frozen
    assert read_rows(other, "train") == read_rows(frozen, "train")
    assert other.stats["environment"]["options"] == {"max_turns": 7}


def test_without_a_task_to_train_on_nothing_is_left_behind(agent: Agent, data_dir):
    told = "there is no task to train on, and 1 held-out task: put tasks into the training split"
    with pytest.raises(NotEnoughData, match=told):
        freeze(agent, DataOptions(), source([task(1)], [task(1)]), method="agent")
    assert not agent.training_sets.exists()
    assert list((data_dir / "training_sets").iterdir()) == []
    assert survey(agent, DataOptions(), source([task(1)], [task(1)]), method="agent").shortage == told


def test_a_survey_counts_what_would_be_frozen(agent: Agent, data_dir):
    seen: list[Any] = []
    tasks = source([task(1), task(2), task(9)], [task(9)])
    found = survey(agent, DataOptions(), tasks, method="agent", see=seen.append)
    assert (found.train_rows, found.heldout_rows, found.prompts_read, found.prompts) == (2, 1, 4, 3)
    assert found.skipped == {"task is held out too": 1}
    assert (found.shortage, found.answer_lengths, found.score_mean) == ("", None, None)
    assert found.prompt_lengths.min > len(SETTINGS.build().instructions)
    assert [row["task"]["task_id"] for row in seen] == ["q1", "q2"], "those to train on"
    assert not data_dir.joinpath("training_sets").exists()


@pytest.mark.parametrize(("train", "held_out", "share"), [(3, 1, 0.25), (4, 0, 0.0), (1, 99, 0.9), (0, 0, 0.0)])
def test_the_held_out_share_is_that_of_the_tasks(train: int, held_out: int, share: float):
    found = source([task(number) for number in range(train)], [task(number) for number in range(held_out)])
    assert found.held_out_share == share


def test_what_leaves_tasks_out_before_is_counted_too(agent: Agent, data_dir):
    tasks = TaskSource(SETTINGS, [task(1), task(1)], [], left_out={"prompt: too strange": 4})
    frozen = freeze(agent, DataOptions(), tasks, method="agent")
    assert frozen.stats["skipped"] == {"prompt: too strange": 4, "task asks what another asks": 1}


def test_ratings_are_no_tasks(agent: Agent, data_dir):
    with pytest.raises(UsageError, match="agents learn from tasks: say where they are by --dataset-dir"):
        freeze(agent, DataOptions(), method="agent")
