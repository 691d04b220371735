import time
from typing import Any, Literal

import pytest

from rl.base.errors import UsageError
from rl.environments.tools import BaseTool, ToolFailed, ToolRegistry
from rl.environments.tools.registry import first_mistake, schema_of


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


SCHEMA = {
    "type": "object",
    "required": ["order"],
    "properties": {
        "order": {"$ref": "#/$defs/Order"},
        "way": {"anyOf": [{"enum": ["air", "sea"]}, {"type": "null"}]},
        "anything": {},
    },
    "$defs": {"Order": {"type": "object", "properties": {"pieces": {"type": "integer", "minimum": 1}}}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"order": {"pieces": 2}, "way": None, "anything": [1]}, ""),
        ({}, "the arguments: 'order' is a required property"),
        ({"order": {"pieces": 0}}, "the argument order.pieces: 0 is less than the minimum of 1"),
        ({"order": "tea"}, "the argument order: 'tea' is not of type 'object'"),
        ({"order": {}, "way": "rail"}, "the argument way: 'rail'"),
        ({"order": {}, "wai": "sea"}, "'wai' was unexpected"),
    ],
    ids=["fits", "missing", "nested", "type", "choice", "stray"],
)
def test_the_first_mistake_is_one_sentence(arguments: dict[str, Any], told: str):
    found = first_mistake(arguments, SCHEMA)
    assert told in found
    assert bool(told) == bool(found)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no such type"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "http://127.0.0.1:9/elsewhere.json"},
        {"properties": 3},
        {"properties": {"a": {"pattern": "("}}},
        {"$ref": "#"},
    ],
    ids=["type", "reference", "address", "shape", "pattern", "itself"],
)
def test_a_broken_schema_says_nothing(schema: dict[str, Any]):
    assert first_mistake({"a": "b"}, schema) == ""


def book(
    city: str,
    nights: int,
    *,
    price: float | None = None,
    guests: list[str] | None = None,
    room: Literal["a", "b"] = "a",
) -> str:
    """Books a room,
    if there is one.

    Args:
        city: Where to.
        nights (int): How long.
        room: Which one: a or b.

    Returns:
        city: this is not about the parameter.
    """
    return city


def test_a_schema_has_types_descriptions_and_what_is_required():
    function = schema_of("book", book)["function"]
    assert (function["name"], function["description"]) == ("book", "Books a room, if there is one.")
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where to."},
            "nights": {"type": "integer", "description": "How long."},
            "price": {"type": "number", "nullable": True},
            "guests": {"type": "array", "items": {"type": "string"}, "nullable": True},
            "room": {"type": "string", "enum": ["a", "b"], "description": "Which one: a or b."},
        },
        "required": ["city", "nights"],
    }


def untyped(city) -> str:  # type: ignore[no-untyped-def]
    return str(city)


def foreign(city: complex) -> str:
    return str(city)


def several(city: str | int) -> str:
    return str(city)


@pytest.mark.parametrize(
    ("function", "told"),
    [(untyped, "city has no type"), (foreign, "which JSON has not"), (several, "which JSON has not")],
    ids=["untyped", "foreign", "several"],
)
def test_what_json_has_not_is_refused(function: Any, told: str):
    with pytest.raises(UsageError, match=f"tool x: its parameter.*{told}"):
        schema_of("x", function)
