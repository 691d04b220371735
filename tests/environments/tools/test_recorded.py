from typing import Any

import pytest

from rl.environments.tools import ToolFailed, ToolRegistry
from rl.environments.tools.recorded import (
    NeverRecorded,
    RecordedTool,
    Recording,
    call_key,
    key_of,
    merge_traces,
    schemas_of,
)


def call(name: str = "look", result: Any = "seen", **arguments: Any) -> dict[str, Any]:
    return {"tool_name": name, "arguments": arguments, "result": result, "success": True, "error": ""}


def failed(error: str, **arguments: Any) -> dict[str, Any]:
    return {**call(**arguments), "result": None, "success": False, "error": error}


def results(recording: Recording, times: int = 1, name: str = "look", **arguments: Any) -> list[Any]:
    return [recording.play(name, arguments).result for _ in range(times)]


# --- which calls are the same ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": [2.0, {"b": 3.0}]}, {"a": (2, {"b": 3})}),
        ({"a": " page \n", "b": ["x "]}, {"a": "page", "b": ["x"]}),
    ],
)
def test_calls_that_ask_for_the_same_are_equal(one, other):
    assert call_key("look", one) == call_key("look ", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1.5}, {"a": 1}),
        ({"a": "Page"}, {"a": "page"}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
    ],
)
def test_calls_that_ask_for_something_else_are_not(one, other):
    assert call_key("look", one) != call_key("look", other)


def test_arguments_may_be_the_json_of_an_object():
    assert key_of({"tool_name": "look", "arguments": '{"a": 1}'}) == call_key("look", {"a": 1})
    assert key_of({"tool_name": "look"}) == key_of({"tool_name": "look", "arguments": " "}) == call_key("look", {})


@pytest.mark.parametrize("given", ['{"a": "cut of', "[1]", [1], 3])
def test_arguments_that_are_no_object_can_be_those_of_no_call(given):
    assert key_of({"tool_name": "look", "arguments": given}) == ""
    with pytest.raises(NeverRecorded, match="a call of look was never recorded"):
        Recording([{"tool_name": "look", "arguments": given}]).play("look", {})


# --- what is played back -----------------------------------------------------------------------------------------------


def test_results_come_in_the_order_of_recording_and_the_last_repeats():
    recording = Recording([call(result="one", page=1), call(result="other", page=2), call(result="two", page=1)])
    assert results(recording, 4, page=1) == ["one", "two", "two", "two"]
    assert results(recording, 2, page=2) == ["other", "other"]


def test_an_error_is_played_back_as_an_error():
    played = Recording([failed("no such page", page=9)]).play("look", {"page": 9})
    assert (played.success, played.error, played.result) == (False, "no such page", None)


def test_a_result_that_is_no_text_is_read_as_json():
    assert results(Recording([call(result={"ü": [1]})])) == ['{"ü": [1]}']


@pytest.mark.parametrize("document", [{"tool_name": "look"}, {"tool_name": "look", "success": None, "error": None}])
def test_a_call_that_says_no_more_succeeded(document):
    assert Recording([document]).play("look", {}).success is True


def test_what_was_never_recorded_is_said_to_be_so():
    recording = Recording([call(page=1)])
    with pytest.raises(NeverRecorded, match=r"^look\(\.\.\.\) with these arguments was never recorded$"):
        recording.play("look", {"page": 2})
    with pytest.raises(NeverRecorded, match="^a call of leap was never recorded$"):
        recording.play("leap", {"page": 1})


def test_a_recorded_tool_plays_back_in_a_registry():
    recording = Recording([call(result="one", page="1"), failed("torn", page="2")])
    tools = ToolRegistry([RecordedTool(schema, recording) for schema in schemas_of([call(page="1")])])
    assert tools.call("look", {"page": "1"}) == "one"
    with pytest.raises(ToolFailed, match="torn"):
        tools.call("look", {"page": "2"})


# --- several traces ----------------------------------------------------------------------------------------------------


def test_of_several_traces_the_one_that_made_a_call_most_often_tells_its_results():
    once, thrice = [call(result="0")], [call(result="0"), call(result="1"), call(result="2")]
    assert [each["result"] for each in merge_traces([once, thrice, once])] == ["0", "1", "2"]


def test_of_traces_that_made_it_equally_often_the_newest_does():
    assert [each["result"] for each in merge_traces([[call(result="old")], [call(result="new")]])] == ["new"]


def test_what_would_be_repeated_anyway_is_kept_once():
    found = merge_traces([[call(result=text) for text in "aabbb"]])
    assert [each["result"] for each in found] == ["a", "a", "b"]


def test_calls_of_all_traces_come_together_without_those_that_cannot_be_read():
    found = merge_traces([[call(page=1)], [call(page=2), {"tool_name": "look", "arguments": "cut"}]])
    assert [each["arguments"] for each in found] == [{"page": 1}, {"page": 2}]


# --- schemas -----------------------------------------------------------------------------------------------------------


def test_a_schema_is_made_from_what_was_called():
    [schema] = schemas_of([call(page=1, words="a"), call(page=2), call(page="x", exact=True)])
    assert schema == {
        "type": "function",
        "function": {
            "name": "look",
            "description": "",
            "parameters": {
                "type": "object",
                "properties": {
                    "page": {"type": "integer"},
                    "words": {"type": "string"},
                    "exact": {"type": "boolean"},
                },
                "required": ["page"],
            },
        },
    }


def test_a_tool_that_only_failed_is_none_where_another_did_not():
    wrong = {**failed("there is no tool 'leap'"), "tool_name": "leap"}
    assert [each["function"]["name"] for each in schemas_of([wrong, call()])] == ["look"]
    assert [each["function"]["name"] for each in schemas_of([wrong])] == ["leap"]
