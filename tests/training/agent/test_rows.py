from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import NotEnoughData
from rl.base.records import silent
from rl.environments.crew import crew
from rl.training.agent.episodes import Play, Stage
from rl.training.agent.rows import TOGETHER, demonstrate, task_rows, turns_of
from rl.training.agent.train import settings_of, stage_in
from rl.training.preparing import Start, prepare
from tests.training.agents import READER, job, task
from tests.training.conftest import Row

pytestmark = pytest.mark.learn

Open = Callable[..., AbstractContextManager[tuple[Start, Stage]]]


@pytest.fixture
def open_stage(tiny_base: Path, tmp_path: Path) -> Open:
    @contextmanager
    def of(rows: list[Row], **overrides: Any) -> Iterator[tuple[Start, Stage]]:
        made = job(tiny_base, tmp_path, rows, **overrides)
        with prepare(made, silent) as start, crew(settings_of(made.config), 0) as world:
            limits = replace(start.limits, answer=int(made.config.max_new_tokens))
            yield start, stage_in(world, start.tokenizer, limits, made.config)

    return of


def test_the_tasks_come_in_the_order_of_the_file_as_token_ids(open_stage: Open):
    rows = [task(number) for number in (3, 1, 2)]
    with open_stage(rows) as (start, stage):
        task_set, lengths = task_rows(start, stage)
        assert task_set["prompt"][:] == ["0", "1", "2"]
        assert [json.loads(document) for document in task_set["task"]] == [row["task"] for row in rows]
        assert task_set["prompt_ids"][0] == stage.chat.prompt_ids(rows[0]["prompt"], ())
    assert (lengths.rows, lengths.dropped) == (3, 0)


def test_a_task_that_leaves_no_room_for_a_turn_is_left_out_and_counted(open_stage: Open):
    rows = [task(number, words=200 if number == 1 else 1) for number in range(12)]
    with open_stage(rows) as (start, stage):
        task_set, lengths = task_rows(start, stage)
        assert [json.loads(row["task"])["number"] for row in task_set] == [0, *range(2, 12)]
        assert task_set["prompt"][:] == [str(kept) for kept in range(11)], "the number of the row that was kept"
    assert (lengths.rows, lengths.dropped) == (12, 1)


def test_where_most_tasks_are_too_long_there_is_a_way_out(open_stage: Open):
    with (
        open_stage([task(0), *(task(number, words=200) for number in range(1, 4))]) as (start, stage),
        pytest.raises(
            NotEnoughData, match=r"3 of 4 prompts have more than .*; with max_length \d+ every row would fit"
        ),
    ):
        task_rows(start, stage)


def test_without_tasks_there_is_nothing_to_train_on(open_stage: Open):
    with open_stage([]) as (start, stage), pytest.raises(NotEnoughData, match="has no tasks to train on"):
        task_rows(start, stage)


def test_only_the_solutions_that_earn_the_reward_are_imitated(open_stage: Open):
    rows = [task(0), task(1, wrong=True), task(2, unknown=True), task(3)]
    with open_stage(rows, environment=READER) as (start, stage):
        task_set, _ = task_rows(start, stage)
        pairs = list(demonstrate(task_set, stage, settings_of(start.job.config), silent))
        texts = [(start.tokenizer.decode(prompt), start.tokenizer.decode(answer)) for prompt, answer in pairs]
    assert [answer for _, answer in texts] == ["open page.<|im_end|>", "wait page.<|im_end|>"] * 2
    assert [
        f"Question number {number}?" in prompt for (prompt, _), number in zip(texts, (0, 0, 3, 3), strict=True)
    ] == [True] * 4
    assert texts[1][0].startswith(texts[0][0] + texts[0][1])
    assert "<tool_response>\nwait\n</tool_response>" in texts[1][0]


def test_nothing_is_played_before_the_first_solution_is_asked_for(open_stage: Open):
    events: list[str] = []
    with open_stage([task(0)], environment=READER) as (start, stage):
        task_set, _ = task_rows(start, stage)
        solutions = demonstrate(task_set, stage, settings_of(start.job.config), lambda *event: events.append(event[0]))
        assert events == []
        assert len(list(solutions)) == 2
    assert events == ["step"]


def test_more_solutions_than_are_played_at_once_all_come(open_stage: Open):
    with open_stage([task(number) for number in range(TOGETHER + 3)], environment=READER) as (start, stage):
        task_set, _ = task_rows(start, stage)
        assert len(list(demonstrate(task_set, stage, settings_of(start.job.config), silent))) == 2 * (TOGETHER + 3)


def test_where_no_solution_earns_the_reward_there_is_nothing_to_imitate(open_stage: Open):
    rows = [task(0, wrong=True), task(1, unknown=True)]
    with open_stage(rows, environment=READER) as (start, stage):
        task_set, _ = task_rows(start, stage)
        solutions = demonstrate(task_set, stage, settings_of(start.job.config), silent)
        with pytest.raises(NotEnoughData, match="1 of 2 tasks have one, and none earned the reward"):
            list(solutions)


@pytest.mark.parametrize(
    ("own", "turns"),
    [
        ([1, 1, 0, 0, 1], [([9], [0, 1]), ([9, 0, 1, 2, 3], [4])]),
        ([1, 1], [([9], [0, 1])]),
        ([1, 0], [([9], [0])]),
        ([], []),
    ],
)
def test_a_turn_is_imitated_after_all_that_came_before_it(own: list[int], turns: list[tuple[list[int], list[int]]]):
    play = Play(0, {}, None, prompt_ids=[9], ids=list(range(len(own))), own=own)
    assert list(turns_of(play)) == turns
