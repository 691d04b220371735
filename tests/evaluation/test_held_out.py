import pytest

from rl.base.errors import NotEnoughData
from rl.evaluation.held_out import latest_training_set, never_learned
from rl.models import Agent, TrainingSet
from tests.evaluation.conftest import PAIRS
from tests.evaluation.pair_sets import write_set
from tests.evaluation.task_sets import task_set, version_from

pytestmark = [pytest.mark.database, pytest.mark.django_db]


def pairs(agent: Agent, digest: str = "p", share: float = 0.2, method: str = "dpo") -> TrainingSet:
    rows = [{**row, "split_key": row["prompt_key"]} for row in PAIRS]
    return write_set(agent, rows, method=method, content_hash=digest * 64, val_split=share, stats={})


def numbers(held_out: object) -> list[int]:
    return [row["task"]["number"] for row in held_out.rows]


def test_tasks_that_a_compared_version_learned_from_are_left_out_and_counted(agent: Agent, data_dir):
    newest = task_set(agent, [1, 2], [3, 4, 5, 6])
    version = version_from(agent, "tasks-v2", "tiny", newest)
    champion = version_from(agent, "tasks-v3", "tiny", task_set(agent, [4, 6, 9], [1], digest="1"))
    held_out = never_learned(newest, version, champion)
    assert (numbers(held_out), held_out.learned, held_out.share) == ([3, 5], 2, 0.2)
    alone = never_learned(newest, version, None)
    assert (numbers(alone), alone.learned) == ([3, 4, 5, 6], 0)


def test_what_was_learned_from_ratings_leaves_no_task_out(agent: Agent, data_dir):
    newest = task_set(agent, [1], [2, 3])
    champion = version_from(agent, "v3", "tiny", pairs(agent, share=0.01))
    held_out = never_learned(newest, version_from(agent, "tasks-v1", "tiny", newest), champion)
    assert (numbers(held_out), held_out.share) == ([2, 3], 0.2)


def test_the_share_of_held_out_tasks_says_nothing_about_pairs(agent: Agent, data_dir):
    rated, tasks = pairs(agent), task_set(agent, [1], [2])
    TrainingSet.objects.filter(pk=tasks.pk).update(val_split=0.0)
    held_out = never_learned(
        rated, version_from(agent, "v2", "tiny", rated), version_from(agent, "tasks-v1", "tiny", tasks)
    )
    assert (held_out.share, held_out.learned) == (0.2, 0)


def test_a_version_is_measured_on_tasks_where_it_learned_from_tasks(agent: Agent, data_dir):
    tasks, rated = task_set(agent, [1], [2]), pairs(agent)
    solver, liked = version_from(agent, "tasks-v1", "tiny", tasks), version_from(agent, "v2", "tiny", rated)
    newest = task_set(agent, [1], [2, 3], digest="1")
    assert latest_training_set(agent, solver) == newest
    assert latest_training_set(agent, liked) == latest_training_set(agent) == rated


def test_where_there_are_only_tasks_all_are_measured_on_them(agent: Agent, data_dir):
    with pytest.raises(NotEnoughData, match="has no held-out rows yet"):
        latest_training_set(agent)
    task_set(agent, [1], [])
    with pytest.raises(NotEnoughData, match="has no held-out rows yet"):
        latest_training_set(agent)
    newest = task_set(agent, [1], [2], digest="1")
    assert latest_training_set(agent) == newest


def test_rows_of_reward_models_measure_these_alone(agent: Agent, data_dir):
    rated, newest = pairs(agent), pairs(agent, "r", method="reward_model")
    liked, judge = version_from(agent, "v2", "tiny", rated), version_from(agent, "reward-v2", "tiny", newest)
    judge.run.method = "reward_model"
    judge.run.save()
    assert latest_training_set(agent, judge) == latest_training_set(agent, scores=True) == newest
    assert latest_training_set(agent, liked) == latest_training_set(agent) == rated


def test_an_agent_whose_only_prompt_is_trained_on_says_how_many_more_it_takes(agent):
    fields = {"method": "dpo", "content_hash": "x", "train_rows": 12, "heldout_rows": 0, "feedback_count": 9}
    TrainingSet.objects.create(agent=agent, val_split=0.2, stats={"prompts": 1}, **fields)
    said = r"12 rows, of 1 prompt, and all are trained on: .* about 40 prompts give the 8 .* --test-data FILE"
    with pytest.raises(NotEnoughData, match=said):
        latest_training_set(agent)
    agent.training_sets.update(val_split=0)
    with pytest.raises(NotEnoughData, match="held-out share is 0: train with a larger --val-split"):
        latest_training_set(agent)
