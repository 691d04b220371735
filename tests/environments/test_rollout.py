import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rl.base.records import Message
from rl.demo.agent_tasks import CODE_TASKS, SEARCH_TASKS
from rl.environments.code_exec import CodeExecEnv
from rl.environments.rollout import run_episode, run_episodes
from rl.environments.search import SearchEnv
from rl.environments.tasks import CodeTaskDataset, SearchTaskDataset


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_a_policy_that_looks_up_and_answers_solves_the_search_tasks():
    def policy(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
        assert [tool["function"]["name"] for tool in tools] == ["search"]
        if messages[-1]["role"] == "user":
            return call("search", query=messages[-1]["content"])
        return messages[-1]["content"]

    tasks = [task.as_mapping() for task in SearchTaskDataset.from_directory(SEARCH_TASKS, "eval").take(4)]
    episodes = list(run_episodes(SearchEnv(), tasks, policy))
    assert [episode.task_id for episode in episodes] == [task["task_id"] for task in tasks]
    assert {(episode.success, episode.reward) for episode in episodes} == {(True, 1.0)}
    assert [message["role"] for message in episodes[0].messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert episodes[0].info["search_history"] == [tasks[0]["question"]]


@pytest.mark.process
def test_an_episode_keeps_what_was_tried_and_why_it_failed():
    turns = iter([call("exec_code", code="print(1 / 0)"), "<tool_call>{oops", "print('no idea')"])
    task = CodeTaskDataset.from_directory(CODE_TASKS, "eval")[0].as_mapping()
    episode = run_episode(CodeExecEnv(failure_penalty=-0.5), task, lambda messages, tools: next(turns))
    assert (episode.success, episode.reward) == (False, -0.5)
    assert episode.reason.startswith("test 1 of")
    [tried] = episode.tool_calls
    assert "ZeroDivisionError" in tried.result
    assert "the tool call cannot be read" in episode.messages[-2]["content"]


def test_what_breaks_the_policy_is_not_an_episode():
    def policy(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
        raise ConnectionError("no model")

    with pytest.raises(ConnectionError, match="no model"):
        run_episode(SearchEnv(), {"task_id": "x", "question": "?", "answer": "y"}, policy)
