"""What every method learns from the stored episodes of an agent in an environment."""

import pytest

from rl.base.errors import NotEnoughData
from rl.base.records import Message
from rl.collect.traces.episodes import store_episodes
from rl.dataset_builder import DatasetPipeline
from rl.environments.episode import Turn
from rl.models import Agent
from rl.scoring.stored import calculate
from tests.collect.made_episodes import LOOKED, trained
from tests.dataset_builder.ratings import all_rows, rate

TASKS = 6


@pytest.fixture
def tried(agent: Agent, data_dir) -> Agent:
    """Each task solved once, and failed once."""
    for number in range(TASKS):
        asked = (Message(role="user", content=f"Print {number}."),)
        right, wrong = (Turn(f"```python\nprint({printed})\n```") for printed in (number, "input"))
        solved = trained(f"t{number}", prompt=asked, turns=(LOOKED, right))
        failed = trained(f"t{number}", sample=1, prompt=asked, turns=(LOOKED, wrong), reward=0.0, success=False)
        store_episodes(agent, [solved, failed])
    calculate(agent)
    return agent


@pytest.mark.database
def test_each_keeps_the_verdict_beside_the_other_rewards(tried):
    for trace in tried.traces.select_related("episode"):
        assert trace.rewards["environment"]["value"] == trace.episode.reward
        assert trace.rewards["code_execution"]["value"] is None
        assert (trace.reward >= tried.label_threshold) is trace.episode.success


def test_kto_takes_their_labels_from_the_verdicts(tried):
    frozen = DatasetPipeline(tried).build_kto_dataset(val_split=0)
    said = {(row["completion"][-1]["content"], row["label"]) for row in all_rows(frozen)}
    assert {label for _, label in said} == {True, False}
    assert all(label is ("print(input)" not in text) for text, label in said)


@pytest.mark.parametrize("method", ["grpo", "reward"])
def test_groups_and_rewarded_answers_come_from_the_verdicts(tried, method):
    frozen = getattr(DatasetPipeline(tried), f"build_{method}_dataset")(val_split=0, min_samples=2)
    assert frozen.train_rows == {"grpo": TASKS, "reward": 2 * TASKS}[method]


def test_pairs_need_people(tried):
    with pytest.raises(NotEnoughData):
        DatasetPipeline(tried).build_dpo_dataset(min_samples=2)
    for trace in tried.traces.select_related("episode"):
        rate(trace, trace.episode.success)
    frozen = DatasetPipeline(tried).build_dpo_dataset(min_samples=2, val_split=0)
    assert frozen.train_rows == TASKS
    rows = list(all_rows(frozen))
    assert all("print(input)" in row["rejected"][-1]["content"] for row in rows)


def test_rows_hold_what_was_done_before_the_answer_and_the_tools(tried):
    frozen = DatasetPipeline(tried).build_kto_dataset(val_split=0)
    for row in all_rows(frozen):
        called, result, answer = row["completion"]
        [call] = called["tool_calls"]
        assert (called["content"], call["function"]["arguments"]) == ("I try it.", {"code": "print(3)"})
        assert (result["role"], result["content"], result["tool_call_id"]) == ("tool", "3\n", call["id"])
        assert answer["content"].startswith("```python")
        assert [tool["function"]["name"] for tool in row["tools"]] == ["exec_code"]


def test_what_both_runs_of_a_pair_begin_with_is_its_prompt(tried):
    for trace in tried.traces.select_related("episode"):
        rate(trace, trace.episode.success)
    frozen = DatasetPipeline(tried).build_dpo_dataset(min_samples=2, val_split=0)
    for row in all_rows(frozen):
        assert [message["role"] for message in row["prompt"]] == ["user", "assistant", "tool"]
        assert [len(row[side]) for side in ("chosen", "rejected")] == [1, 1]
