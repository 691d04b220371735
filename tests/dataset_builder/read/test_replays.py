import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from rl.base.errors import NotEnoughData
from rl.base.records import Message, ToolCall
from rl.collect.capture.cleaning import MOST_CHARACTERS
from rl.collect.feedback.write import compare, correct
from rl.collect.traces.episodes import store_episodes
from rl.dataset_builder import DataOptions, freeze, survey, task_source
from rl.dataset_builder.read import replays
from rl.dataset_builder.read.replays import GONE, NO_CALLS, NOT_WHOLE, UNJUDGED, replay_tasks
from rl.environments.contract import Action, ToolRequest
from rl.environments.episode import Turn
from rl.environments.replay import ReplayEnv
from rl.environments.settings import EnvironmentSettings
from rl.environments.tasks.replay_fields import replay_problems
from rl.models import Agent, Feedback, Trace, TrainingRun, prompt_key
from tests.collect.made_episodes import ANSWERED, LOOKED, episode, trained
from tests.conftest import make_trace
from tests.dataset_builder.ratings import questions, rate, read_rows

SETTINGS = EnvironmentSettings("replay")


def read(page: int, result: str = "a purple elephant", **fields: Any) -> dict[str, Any]:
    return {"tool_name": "read", "arguments": {"page": page}, "result": result, "success": True, "error": "", **fields}


def asked(agent: Agent, question: str, response: str, *calls: dict[str, Any], **fields: Any) -> Trace:
    return make_trace(agent, question, response, tool_calls=list(calls or [read(1)]), **fields)


def one_task(agent: Agent) -> dict[str, Any]:
    found = replay_tasks(agent, val_split=0)
    [task] = [*found.tasks, *found.held_out]
    assert list(replay_problems(json.loads(json.dumps(task)))) == []
    return task


def wrong(sample: int = 0, code: str = "print(4)", **fields: Any) -> Any:
    """An episode that failed."""
    turn = Turn("", (ToolCall("exec_code", {"code": code}, "a purple elephant"),), "a purple elephant")
    ended = {"split": "train", "success": False, "reward": 0.0, "reason": "no", **fields}
    return episode(sample=sample, turns=(turn, Turn("```python\nprint(4)\n```")), **ended)


# --- episodes ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(agent: Agent) -> TrainingRun:
    options = {"test_timeout": 2.0, "max_turns": 3, "system_prompt": "x"}
    config = {"environment": {"type": "code_exec", "options": options}}
    return TrainingRun.objects.create(agent=agent, method="agent", config=config)


def test_the_episodes_of_a_prompt_are_one_task_with_the_calls_of_all(agent, run):
    store_episodes(agent, [wrong(0), wrong(1, "print(5)"), trained(sample=2)], run)
    task = one_task(agent)
    key = prompt_key(list(episode().prompt))
    assert (task["task_id"], task["prompt"]) == (f"sum-{key[:12]}", list(episode().prompt))
    assert [(call["arguments"]["code"], call["result"]) for call in task["recorded"]] == [
        ("print(4)", "a purple elephant"),
        ("print(5)", "a purple elephant"),
        ("print(3)", "3\n"),
    ]
    assert [tool["function"]["name"] for tool in task["tools"]] == ["exec_code"]
    assert task["tools"][0]["function"]["parameters"]["properties"]["code"]["description"] == "The whole program."


@pytest.mark.process
def test_the_environment_of_the_episodes_judges_as_it_did_in_their_run(agent, run):
    store_episodes(agent, [wrong()], run)
    task = one_task(agent)
    assert (task["environment"], task["options"]) == ("code_exec", {"test_timeout": 2.0})
    assert task["task"]["tests"] == [{"input": "", "output": "3"}]
    world = ReplayEnv()
    world.reset(task)
    [call] = wrong().tool_calls
    step = world.step(Action("", (ToolRequest(call.tool_name, call.arguments),)))
    assert step.observation == "a purple elephant"
    assert world.step(Action("```python\nprint(3)\n```")).info["success"] is True


def test_the_shortest_episode_that_solved_it_is_the_solution(agent):
    store_episodes(agent, [wrong(), trained(sample=1, turns=(LOOKED, LOOKED, ANSWERED)), trained(sample=2)])
    code = {"tool_name": "exec_code", "arguments": {"code": "print(3)"}}
    [[call], answer] = one_task(agent)["solution"]
    assert ({name: call[name] for name in code}, answer) == (code, ANSWERED.text)
    assert ReplayEnv().demonstration(one_task(agent))[0] == Action("", (ToolRequest(*code.values()),))


def test_without_one_that_solved_it_there_is_no_solution(agent):
    store_episodes(agent, [wrong()])
    assert "solution" not in one_task(agent)


@pytest.mark.database
def test_replays_are_not_replayed(agent, run):
    store_episodes(agent, [wrong()], run)
    before = one_task(agent)
    replayed = [wrong(sample, f"print({sample})", environment="replay", task=before) for sample in range(3)]
    store_episodes(agent, replayed, TrainingRun.objects.create(agent=agent, method="agent", state="failed"))
    assert one_task(agent) == before
    kept = Trace.objects.filter(episode__environment="replay").first().details["episode"]["task"]
    assert kept["task"] == before["task"]
    assert not {"recorded", "solution", "tools"} & kept.keys()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"environment": "no.such.module:Env"}, GONE),
        ({"task": {"task_id": "sum"}}, NOT_WHOLE),
        ({"task": {**episode().task, "starter_code": "x" * MOST_CHARACTERS}}, NOT_WHOLE),
    ],
)
def test_episodes_that_nobody_can_judge_are_counted_with_the_reason(agent, fields, reason):
    store_episodes(agent, [wrong(**fields)])
    assert replay_tasks(agent).skipped == {reason: 1}
    with pytest.raises(NotEnoughData, match=f"no prompt of support-chat can be replayed: 1 × {reason}"):
        task_source(agent, SETTINGS)


def test_people_judge_where_the_environment_cannot(agent):
    store_episodes(agent, [wrong(environment="no.such.module:Env")])
    rate(Trace.objects.get(), 1)
    assert one_task(agent)["accepted"] == [wrong().answer]


# --- answers that people judged ----------------------------------------------------------------------------------------


@pytest.mark.database
def test_liked_written_and_preferred_answers_are_accepted(agent):
    liked, disliked, edited, won = (asked(agent, "Where?", text) for text in ("page 1", "page 2", "page 3", "page 4"))
    rate(liked, 1)
    rate(disliked, 0)
    common = {"rater": "alice", "source": "test"}
    correct(edited, text="Page 5.", **common)
    compare(edited, won, choice=Feedback.Choice.RIGHT, **common)
    compare(disliked, edited, choice=Feedback.Choice.LEFT, **common)
    task = one_task(agent)
    assert sorted(task["accepted"]) == ["Page 5.", "page 1", "page 4"]
    assert task["solution"][-1] in ("page 1", "page 4")
    assert task["task_id"] == prompt_key(liked.prompt)[:12]
    assert Feedback.objects.filter(training_set=None).count() == Feedback.objects.count(), "it waits for other methods"


def test_the_solution_of_a_liked_answer_is_its_calls_one_by_one(agent):
    rate(asked(agent, "Where?", "page 2", read(1), read(2)), 1)
    assert [[call["arguments"] for call in calls] for calls in one_task(agent)["solution"][:-1]] == [
        [{"page": 1}],
        [{"page": 2}],
    ]


def test_tools_that_were_offered_are_used_and_those_of_other_calls_are_made(agent):
    schema = {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": {}}}
    other = {**read(1), "tool_name": "turn"}
    rate(asked(agent, "Where?", "page 2", read(1), other, details={"tools": [schema]}), 1)
    first, second = one_task(agent)["tools"]
    assert (first, second["function"]["name"]) == (schema, "turn")


def test_what_nobody_judged_or_nobody_can_read_is_left_out_and_counted(agent):
    asked(agent, "Unjudged?", "page 1")
    rate(asked(agent, "Disliked?", "page 1"), 0)
    rate(asked(agent, "Cut?", "page 1", read(1, arguments='{"page": ')), 1)
    rate(make_trace(agent, "Without tools?", "page 1"), 1)
    rate(asked(agent, "Good?", "page 1"), 1)
    found = replay_tasks(agent, val_split=0)
    assert [task["prompt"][0]["content"] for task in found.tasks] == ["Good?"]
    assert found.skipped == {UNJUDGED: 2, NO_CALLS: 1}
    counted = survey(agent, DataOptions(), task_source(agent, SETTINGS, val_split=0), method="agent")
    assert counted.skipped == found.skipped


# --- order, split, size ------------------------------------------------------------------------------------------------


def test_results_are_in_the_order_in_which_they_happened(agent):
    now = timezone.now()
    rate(asked(agent, "Where?", "page 1", read(1, "new"), occurred_at=now), 1)
    asked(agent, "Where?", "page 1", read(1, "old"), occurred_at=now - timedelta(days=1))
    assert [call["result"] for call in one_task(agent)["recorded"]] == ["new"]


def test_prompts_are_split_as_those_of_other_methods(agent):
    for held_out in (True, False):
        for question in questions(agent, held_out=held_out)[:3]:
            rate(asked(agent, question, "page 1"), 1)
    found = replay_tasks(agent)
    assert {task["prompt"][0]["content"] for task in found.held_out} == set(questions(agent, held_out=True)[:3])
    assert len(found.tasks) == 3


def test_what_a_training_measured_itself_by_stays_held_out(agent, run):
    asked_of = (Message(role="user", content="Print three."),)
    store_episodes(agent, [wrong(), wrong(split="eval", prompt=asked_of)], run)
    found = replay_tasks(agent, val_split=0)
    assert [len(found.tasks), [task["prompt"] for task in found.held_out]] == [1, [list(asked_of)]]


def test_prompts_under_one_key_of_an_importer_are_tasks_of_their_own(agent):
    for question in ("Where?", "When?"):
        rate(asked(agent, question, "page 1", prompt_key="q1"), 1)
    assert len({task["task_id"] for task in replay_tasks(agent, val_split=0).tasks}) == 2


def test_only_the_newest_traces_of_a_prompt_are_read(agent, monkeypatch):
    monkeypatch.setattr(replays, "MOST_TRACES", 2)
    now = timezone.now()
    for page in range(4):
        rate(asked(agent, "Where?", f"page {page}", read(page), occurred_at=now + timedelta(seconds=page)), 1)
    assert [call["arguments"]["page"] for call in one_task(agent)["recorded"]] == [2, 3]


def test_some_queries_however_many_traces(agent):
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            replay_tasks(agent)
        return len(seen)

    store_episodes(agent, [wrong()])
    few = queries()
    store_episodes(agent, [wrong(sample, prompt=(Message(role="user", content=f"{sample}"),)) for sample in range(30)])
    assert queries() == few


def test_no_more_prompts_than_asked_for(agent):
    for number in range(5):
        rate(asked(agent, f"Question {number}?", "page 1"), 1)
    found = replay_tasks(agent, limit=3)
    assert len(found.tasks) + len(found.held_out) == 3


# --- training sets -----------------------------------------------------------------------------------------------------


def test_a_training_set_has_the_replays_as_tasks(agent, data_dir):
    for held_out in (True, False):
        rate(asked(agent, questions(agent, held_out=held_out)[0], "page 1"), 1)
    frozen = freeze(agent, DataOptions(), task_source(agent, SETTINGS), method="agent")
    assert (frozen.train_rows, frozen.heldout_rows, frozen.source) == (1, 1, "replay")
    [row] = read_rows(frozen, "train")
    assert row["prompt"] == row["task"]["prompt"]
    assert row["task"]["recorded"][0]["result"] == "a purple elephant"
    assert frozen.stats["environment"]["type"] == "replay"


def test_an_agent_without_calls_of_tools_has_nothing_to_replay(agent):
    rate(make_trace(agent), 1)
    with pytest.raises(NotEnoughData, match="support-chat has no traces with calls of tools to be replayed"):
        task_source(agent, SETTINGS)


def test_where_all_prompts_are_held_out_it_says_so(agent):
    rate(asked(agent, questions(agent, held_out=True)[0], "page 1"), 1)
    with pytest.raises(NotEnoughData, match="1 prompt of support-chat can be replayed, and held out: more are needed"):
        task_source(agent, SETTINGS)


def test_a_folder_of_replay_tasks_is_used_instead(agent, tmp_path):
    task = {"task_id": "t", "prompt": [{"role": "user", "content": "Where?"}], "recorded": [read(1)], "accepted": ["x"]}
    (tmp_path / "train.jsonl").write_text(json.dumps(task) + "\n")
    assert task_source(agent, SETTINGS, str(tmp_path), eval_split="").train == [task]
