from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects.hermes import MOST_CALLS, read_action, write_calls


def test_text_without_a_call_is_an_answer():
    assert read_action(" It is 42.\n") == Action("It is 42.")


def test_calls_are_read_in_their_order_and_the_rest_is_what_was_said():
    action = read_action(
        'First\n<tool_call>{"name": "search", "arguments": {"query": "Bonn"}}</tool_call>\nthen\n'
        '<tool_call>\n{"name": "stop"}\n</tool_call>'
    )
    assert action.calls == (ToolRequest("search", {"query": "Bonn"}), ToolRequest("stop"))
    assert action.text == "First\n\nthen"
    assert not action.error


def test_a_call_that_ran_out_of_tokens_behind_its_json_still_counts():
    assert read_action('<tool_call>{"name": "stop", "arguments": {}}').calls == (ToolRequest("stop"),)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ('{"name": "search", "arguments": {', "cannot be read"),
        ("search(Bonn)", "cannot be read"),
        ("", "cannot be read"),
        ('{"arguments": {}}', "not a JSON object with a name"),
        ('["search"]', "not a JSON object with a name"),
        ('{"name": 7}', "not a JSON object with a name"),
        ('{"name": "search", "arguments": "Bonn"}', "arguments must be a JSON object"),
        ("[" * 100_000, "cannot be read"),
    ],
    ids=["cut", "words", "empty", "nameless", "list", "number", "text", "deep"],
)
def test_a_malformed_call_is_told_with_what_would_be_right(call: str, told: str):
    action = read_action(f"Let me see. <tool_call>{call}</tool_call>")
    assert told in action.error
    assert '<tool_call>{"name": "...", "arguments": {...}}</tool_call>' in action.error
    assert (action.text, action.calls) == ("Let me see.", ())


def test_too_many_calls_in_one_turn_are_refused():
    call = '<tool_call>{"name": "stop"}</tool_call>'
    assert len(read_action(call * MOST_CALLS).calls) == MOST_CALLS
    assert read_action(call * (MOST_CALLS + 1)).error == "9 tool calls in one turn, at most 8 are allowed"


@settings(max_examples=30)
@given(st.dictionaries(st.text(), st.text()))
def test_what_is_written_is_read_back(arguments: dict[str, str]):
    request = ToolRequest("anything", arguments)
    assert read_action(write_calls([request])).calls == (request,)


@given(st.text())
def test_no_text_is_too_strange(text: str):
    assert isinstance(read_action(text), Action)
    called = read_action(f"<tool_call>{text}</tool_call>")
    assert bool(called.calls) != bool(called.error)
