from __future__ import annotations

import time
from typing import Any, Literal

import pytest

from rl.base.errors import UsageError
from rl.environments.tools import BaseTool, ToolFailed, ToolRegistry


class Repeat(BaseTool):
    name = "repeat"

    def run(self, word: str, times: int = 1, tone: Literal["loud", "soft"] = "soft") -> str:
        """Repeats."""
        return word * times


class Broken(BaseTool):
    name = "broken"

    def run(self) -> str:
        """Breaks."""
        raise ZeroDivisionError("division by zero")


class Hangs(BaseTool):
    name, seconds = "hangs", 0.05

    def run(self) -> str:
        """Hangs."""
        time.sleep(5)
        return "too late"


TOOLS = ToolRegistry([Repeat(), Broken(), Hangs()])


def test_a_tool_is_called_with_its_arguments():
    assert TOOLS.call("repeat", {"word": "ha", "times": 3}) == "hahaha"
    assert list(TOOLS) == ["repeat", "broken", "hangs"]
    assert [schema["function"]["name"] for schema in TOOLS.schemas] == list(TOOLS)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("shout", {}, "unknown tool 'shout'; known: repeat, broken, hangs"),
        ("repeat", {}, "repeat needs the argument word"),
        ("repeat", {"word": "ha", "often": 3}, "repeat has no argument 'often'; it has: word, times, tone"),
        ("repeat", {"word": 3}, "the argument word of repeat must be of type string, not 3"),
        ("repeat", {"word": None}, "must be of type string, not None"),
        ("repeat", {"word": "ha", "times": True}, "must be of type integer, not True"),
        ("repeat", {"word": "ha", "tone": "shrill"}, "must be one of 'loud', 'soft', not 'shrill'"),
        ("broken", {}, "broken failed: ZeroDivisionError: division by zero"),
    ],
    ids=["unknown", "missing", "stray", "type", "null", "bool", "choice", "broken"],
)
def test_what_goes_wrong_is_one_sentence_for_the_agent(name: str, arguments: dict[str, Any], told: str):
    with pytest.raises(ToolFailed) as failed:
        TOOLS.call(name, arguments)
    assert told in str(failed.value)
    assert not failed.value.timed_out


def test_a_tool_that_hangs_is_given_up():
    with pytest.raises(ToolFailed, match=r"hangs did not answer within 0\.05 seconds") as failed:
        TOOLS.call("hangs", {})
    assert failed.value.timed_out


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(UsageError, match="two tools have the same name"):
        ToolRegistry([Repeat(), Repeat()])


def test_a_tool_may_bring_its_own_schema():
    class Foreign(BaseTool):
        name = "foreign"
        schema = {
            "type": "function",
            "function": {
                "name": "foreign",
                "description": "Counts.",
                "parameters": {
                    "type": "object",
                    "properties": {"what": {"anyOf": [{"type": "array"}, {"type": "null"}]}},
                },
            },
        }

        def run(self, **arguments: Any) -> str:
            return str(len(arguments["what"]))

    tools = ToolRegistry([Foreign()])
    assert tools.schemas == [Foreign.schema]
    assert tools.call("foreign", {"what": [1, 2]}) == "2"
    with pytest.raises(ToolFailed, match="foreign cannot be called so: the argument what: 3 is not valid"):
        tools.call("foreign", {"what": 3})
