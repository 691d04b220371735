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
from rl.training.agent.rows import TOGETHER, demonstrated, task_rows, turns_of
from rl.training.agent.train import settings_of, stage_in
from rl.training.preparing import Start, prepared
from tests.training.agents import READER, job, task
from tests.training.conftest import Row

Open = Callable[..., AbstractContextManager[tuple[Start, Stage]]]


@pytest.fixture
def opened(tiny_base: Path, tmp_path: Path) -> Open:
    @contextmanager
    def of(rows: list[Row], **overrides: Any) -> Iterator[tuple[Start, Stage]]:
        made = job(tiny_base, tmp_path, rows, **overrides)
        with prepared(made, silent) as start, crew(settings_of(made.config), 0) as world:
            limits = replace(start.limits, answer=int(made.config.max_new_tokens))
            yield start, stage_in(world, start.tokenizer, limits, made.config)

    return of


def test_the_tasks_come_in_the_order_of_the_file_as_token_ids(opened: Open):
    rows = [task(number) for number in (3, 1, 2)]
    with opened(rows) as (start, stage):
        found, lengths = task_rows(start, stage)
        assert found["prompt"][:] == ["0", "1", "2"]
        assert [json.loads(each) for each in found["task"]] == [row["task"] for row in rows]
        assert found["prompt_ids"][0] == stage.chat.prompt_ids(rows[0]["prompt"], ())
    assert (lengths.rows, lengths.dropped) == (3, 0)


def test_a_task_that_leaves_no_room_for_a_turn_is_left_out_and_counted(opened: Open):
    rows = [task(number, words=200 if number == 1 else 1) for number in range(12)]
    with opened(rows) as (start, stage):
        found, lengths = task_rows(start, stage)
        assert [json.loads(row["task"])["number"] for row in found] == [0, *range(2, 12)]
        assert found["prompt"][:] == [str(kept) for kept in range(11)], "the number of the row that was kept"
    assert (lengths.rows, lengths.dropped) == (12, 1)


def test_where_most_tasks_are_too_long_there_is_a_way_out(opened: Open):
    with (
        opened([task(0), *(task(number, words=200) for number in range(1, 4))]) as (start, stage),
        pytest.raises(
            NotEnoughData, match=r"3 of 4 prompts have more than .*; with max_length \d+ every row would fit"
        ),
    ):
        task_rows(start, stage)


def test_without_tasks_there_is_nothing_to_train_on(opened: Open):
    with opened([]) as (start, stage), pytest.raises(NotEnoughData, match="has no tasks to train on"):
        task_rows(start, stage)


def test_only_the_solutions_that_earn_the_reward_are_imitated(opened: Open):
    rows = [task(0), task(1, wrong=True), task(2, unknown=True), task(3)]
    with opened(rows, environment=READER) as (start, stage):
        found, _ = task_rows(start, stage)
        pairs = list(demonstrated(found, stage, settings_of(start.job.config), silent))
        told = [(start.tokenizer.decode(prompt), start.tokenizer.decode(answer)) for prompt, answer in pairs]
    assert [answer for _, answer in told] == ["open page.<|im_end|>", "wait page.<|im_end|>"] * 2
    assert [f"Question number {number}?" in prompt for (prompt, _), number in zip(told, (0, 0, 3, 3), strict=True)] == [
        True
    ] * 4
    assert told[1][0].startswith(told[0][0] + told[0][1])
    assert "<tool_response>\nwait\n</tool_response>" in told[1][0]


def test_nothing_is_played_before_the_first_solution_is_asked_for(opened: Open):
    told: list[str] = []
    with opened([task(0)], environment=READER) as (start, stage):
        found, _ = task_rows(start, stage)
        solutions = demonstrated(found, stage, settings_of(start.job.config), lambda *event: told.append(event[0]))
        assert told == []
        assert len(list(solutions)) == 2
    assert told == ["step"]


def test_more_solutions_than_are_played_at_once_all_come(opened: Open):
    with opened([task(number) for number in range(TOGETHER + 3)], environment=READER) as (start, stage):
        found, _ = task_rows(start, stage)
        assert len(list(demonstrated(found, stage, settings_of(start.job.config), silent))) == 2 * (TOGETHER + 3)


def test_where_no_solution_earns_the_reward_there_is_nothing_to_imitate(opened: Open):
    rows = [task(0, wrong=True), task(1, unknown=True)]
    with opened(rows, environment=READER) as (start, stage):
        found, _ = task_rows(start, stage)
        solutions = demonstrated(found, stage, settings_of(start.job.config), silent)
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
