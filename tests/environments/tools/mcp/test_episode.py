"""Whole episodes with tools of a server."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.base.records import Message
from rl.environments.rollout import run_episode
from rl.environments.settings import EnvironmentSettings
from tests.environments.tools.mcp.conftest import SERVER, quick

pytestmark = pytest.mark.process


TASK = {"task_id": "1", "question": "What is 20 + 22?", "answer": "42", "documents": ["Tea is a drink."]}
SHOP = {"command": SERVER, "timeout": 1}


def call(name: str, arguments: str) -> str:
    return f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'


def test_an_agent_uses_the_tools_of_a_server_beside_those_of_its_environment():
    said = iter([call("search", '{"query": "tea"}'), call("add", '{"a": 20}'), call("add", '{"a": 20, "b": 22}'), "42"])
    offered: list[str] = []

    def policy(chat: Sequence[Message], schemas: Sequence[Mapping[str, Any]]) -> str:
        offered[:] = [schema["function"]["name"] for schema in schemas]
        return next(said)

    environment = EnvironmentSettings(type="search", tools={"mcp": {"shop": SHOP}}).check().build()
    episode = run_episode(environment, TASK, policy)
    assert offered[:3] == ["search", "add", "order"]
    assert (episode.success, episode.reward) == (True, 1.0)
    assert [turn.observation for turn in episode.turns] == ["[1] Tea is a drink.", "21", "42", ""]
    assert [(each.tool_name, each.success) for each in episode.tool_calls] == [
        ("search", True),
        ("add", True),
        ("add", True),
    ]


def test_failures_of_a_server_are_observations_and_time_that_ran_out_is_remembered():
    said = iter([call("die", "{}"), call("add", '{"a": "x"}'), call("hang", "{}")])
    environment = EnvironmentSettings("search", {"max_turns": 3}, {"mcp": {"shop": SHOP}}).build()
    episode = run_episode(environment, TASK, lambda chat, schemas: next(said))
    assert episode.turns[0].observation.startswith("error: the server shop was lost during the call")
    assert "is not of type 'integer'" in episode.turns[1].observation
    assert (episode.success, episode.reward, episode.info["timed_out"]) == (False, -0.1, True)
    assert episode.tool_calls[-1].error == "hang did not answer within 1 seconds"


def test_settings_are_checked_without_starting_a_server():
    EnvironmentSettings("search", tools={"mcp": {"shop": {"command": ["no-such-program"]}}}).check()
    with pytest.raises(UsageError, match=r"tools\.mcp\.shop\.command must be a list of texts"):
        EnvironmentSettings("search", tools={"mcp": {"shop": {"command": "no-such-program"}}}).check()


def test_a_tool_does_not_take_the_place_of_the_environments_own():
    stall = {"command": quick({"name": "search"})}
    with pytest.raises(UsageError, match=r"the environment and the MCP server stall both have a tool search: set"):
        EnvironmentSettings("search", tools={"mcp": {"stall": stall}}).build()
    with_prefix = EnvironmentSettings("search", tools={"mcp": {"stall": {**stall, "prefix": True}}}).build()
    assert list(with_prefix.tools) == ["search", "stall_search"]
