"""What the tiny model of ``answering`` learns from its episodes, and that it learns the same again."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rl.base.errors import NotEnoughData, TrainingFailed, UsageError
from rl.base.records import silent
from rl.config import AgentConfig
from rl.environments.crew import crew
from rl.training.agent import train as agent
from rl.training.agent.episodes import Play, Stage
from rl.training.agent.train import TOGETHER, demonstrate, settings_of, stage_in, task_rows, turns_of
from rl.training.preparing import Start, prepare
from tests.training.agents import HELD_OUT, READER, Run, episodes, job, metrics, task, tasks, whole, world
from tests.training.conftest import Listener, Row, kill_and_go_on, same_weights, stop_and_go_on

pytestmark = pytest.mark.learn

LEARNING: dict[str, Any] = {"epochs": 2.0, "batch_size": 16, "num_generations": 8, "learning_rate": 1e-2}
"""Twelve steps of two tasks with eight episodes each."""


@pytest.fixture(scope="module")
def uninterrupted_run(answering_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return whole(answering_base, tmp_path_factory.mktemp("whole"))


def timeless(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**episode, "seconds": None} for episode in documents]


def patience(listener: Listener) -> float:
    """Of the last three steps: how often it waited at the end."""
    return fmean(episode["turns"][-1]["text"].startswith("Perhaps") for episode in episodes(listener)[-48:])


@pytest.mark.slow
def test_what_is_rewarded_in_a_later_turn_becomes_likelier(answering_base: Path, tmp_path: Path):
    """Measured with eight seeds: 0.95 to 1, of 0.4 at first; at temperature 1, where it goes on trying what is worse, 0.75
    to 0.98."""
    listener = Listener()
    measured = {"eval_interval": 12, "temperature": 0.7}
    agent.train(job(answering_base, tmp_path, None, HELD_OUT, seed=2, **LEARNING, **measured), listener)
    assert patience(listener) > 0.85
    assert [of_step["heldout_success"] for step, of_step in metrics(listener).items() if step in (0, 12)] == [0.0, 1.0]


def test_nothing_is_learned_from_rewards_by_lot(answering_base: Path, tmp_path: Path):
    listener = Listener()
    agent.train(job(answering_base, tmp_path, environment=world("ByLot", rounds=1), seed=1, **LEARNING), listener)
    assert 0.25 < patience(listener) < 0.75


def test_solutions_that_are_imitated_first_are_then_found(answering_base: Path, tmp_path: Path):
    success = {}
    for epochs in (0.0, 8.0):
        listener = Listener()
        options = {"sft_epochs": epochs, "full": True, "sft_learning_rate": 3e-3, "eval_interval": 1, "max_steps": 1}
        made = job(answering_base, tmp_path / str(epochs), None, tasks(4), environment=READER, **options)
        agent.train(made, listener)
        success[epochs] = metrics(listener)[0]["heldout_success"]
    assert "imitates 24 good answers first" in listener.log
    assert success == {0.0: 0.0, 8.0: 1.0}


def test_where_nothing_can_be_imitated_it_says_so(answering_base: Path, tmp_path: Path):
    with pytest.raises(NotEnoughData, match="0 of 12 tasks have one"):
        agent.train(job(answering_base, tmp_path, sft_epochs=1.0), silent)


def test_a_cancelled_training_resumes_to_the_same_adapter(answering_base: Path, tmp_path: Path, uninterrupted_run: Run):
    listener = Listener()
    resumed = stop_and_go_on(agent.train, job(answering_base, tmp_path), listener)
    assert same_weights(resumed, uninterrupted_run[0])
    assert timeless(episodes(listener)) == timeless(episodes(uninterrupted_run[1])[16:])


def test_a_killed_training_resumes_to_the_same_adapter(answering_base: Path, tmp_path: Path, uninterrupted_run: Run):
    listener = Listener()
    resumed = kill_and_go_on(agent.train, job(answering_base, tmp_path, save_steps=2), listener)
    assert same_weights(resumed, uninterrupted_run[0])
    assert {episode["step"] for episode in episodes(listener)} == {4, 5}


def test_workers_change_nothing(answering_base: Path, tmp_path: Path, uninterrupted_run: Run):
    listener = Listener()
    result = agent.train(job(answering_base, tmp_path, None, HELD_OUT, async_rollout_workers=2), listener)
    assert same_weights(result, uninterrupted_run[0])
    assert episodes(listener, "eval") == [], "eval_interval is 0 here: measuring changes nothing either"
    assert timeless(episodes(listener)) == timeless(episodes(uninterrupted_run[1]))


def test_a_seed_decides_which_episodes_are_played(answering_base: Path, tmp_path: Path):
    played = []
    for number, seed in enumerate((5, 5, 6)):
        listener = Listener()
        agent.train(job(answering_base, tmp_path / str(number), seed=seed, max_steps=1), listener)
        played.append(timeless(episodes(listener)))
    assert played[0] == played[1] != played[2]


def test_it_shows_that_it_is_alive_within_a_step(answering_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rl.training.callbacks.SECONDS", 0)
    listener = Listener()
    agent.train(job(answering_base, tmp_path, max_steps=1), listener)
    training = listener.events[listener.events.index(("stage", {"name": "training"})) :]
    first = next(index for index, (event, values) in enumerate(training) if event == "step" and values["metrics"])
    assert first > 12, "a sign for each token at least"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"rows": []}, NotEnoughData, "has no tasks to train on"),
        ({"max_new_tokens": 192}, UsageError, "max_new_tokens 192 leaves no room for a prompt in max_length 192"),
        ({"vllm": True}, UsageError, "--vllm needs a GPU, and there is none here"),
        ({"device": "cuda"}, UsageError, "cuda"),
        ({"environment": {"type": "tests.training.worlds:Nowhere"}}, UsageError, "there is no environment"),
        ({"policy_type": "template"}, UsageError, "chat template cannot be used for tools"),
    ],
)
def test_what_cannot_be_trained_is_told_in_one_sentence(
    answering_base: Path, tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        agent.train(job(answering_base, tmp_path, **change), silent)


@pytest.mark.parametrize("engine", ["FSDP", "DEEPSPEED"])
def test_a_model_that_is_cut_into_pieces_plays_no_episodes(
    answering_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
):
    monkeypatch.setenv(f"ACCELERATE_USE_{engine}", "true")
    with pytest.raises(TrainingFailed, match="train without FSDP and DeepSpeed"):
        agent.train(job(answering_base, tmp_path), silent)


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


def row(number: int) -> Row:
    """The tool of each task has another name."""
    call = {"tool_name": f"read_{number}", "arguments": {"page": number}}
    prompt = [{"role": "user", "content": f"Question {number}?"}]
    task = {
        "task_id": f"t{number}",
        "prompt": prompt,
        "recorded": [{**call, "result": f"elephant {number}"}],
        "accepted": [f"page {number}"],
        "solution": [[call], f"page {number}"],
    }
    return {"prompt": prompt, "prompt_key": str(number), "split_key": str(number), "task": task}


@pytest.mark.parametrize("workers", [0, 2])
def test_each_task_is_asked_with_its_own_tools_and_reads_its_own_results(tiny_base: Path, tmp_path: Path, workers: int):
    rows = [row(number) for number in range(TOGETHER + 2)]
    settings: dict[str, Any] = {"environment": {"type": "replay"}, "max_length": 2048}
    made = job(tiny_base, tmp_path, rows, **settings)
    config = made.config
    assert isinstance(config, AgentConfig)
    with prepare(made, silent) as start, crew(settings_of(config), workers) as world:
        stage = stage_in(world, start.tokenizer, replace(start.limits, answer=40), config)
        task_set, lengths = task_rows(start, stage)
        asked = [start.tokenizer.decode(ids) for ids in task_set["prompt_ids"]]
        shown = [
            (start.tokenizer.decode(prompt), start.tokenizer.decode(answer))
            for prompt, answer in demonstrate(task_set, stage, settings_of(config), silent)
        ]
    assert (lengths.rows, lengths.dropped) == (len(rows), 0)
    for number, text in enumerate(asked):
        assert f'"read_{number}"' in text
        assert text.count('"read_') == 1
    assert len(shown) == 2 * len(rows)
    for number, (before, answer) in enumerate(shown[1::2]):
        assert f"elephant {number}" in before
        assert answer.startswith(f"page {number}")
