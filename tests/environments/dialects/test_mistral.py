from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects import dialect

read_action, write_calls = dialect("mistral").read_action, dialect("mistral").write_calls
SEARCH = ToolRequest("search", {"query": "Bonn"})


@pytest.mark.parametrize(
    "text",
    [
        '[TOOL_CALLS] [{"name": "search", "arguments": {"query": "Bonn"}, "id": "a1B2c3D4e"}]',
        '[TOOL_CALLS][{"name": "search", "arguments": {"query": "Bonn"}}]',
        '[TOOL_CALLS]{"name": "search", "arguments": {"query": "Bonn"}}',
        '[TOOL_CALLS]search[ARGS]{"query": "Bonn"}',
        '[TOOL_CALLS]search[CALL_ID]a1B2c3D4e[ARGS]{"query": "Bonn"}',
        '[TOOL_CALLS] search {"query": "Bonn"}',
    ],
)
def test_a_call_is_read_in_all_the_ways_in_which_mistral_writes_it(text: str):
    assert read_action(text) == Action("", (SEARCH,))


@pytest.mark.parametrize(
    "text",
    [
        '[TOOL_CALLS] [{"name": "search", "arguments": {"query": "Bonn"}}, {"name": "stop", "arguments": {}}]',
        '[TOOL_CALLS]search[ARGS]{"query": "Bonn"}[TOOL_CALLS]stop[ARGS]{}',
    ],
)
def test_several_calls_are_read_in_their_order(text: str):
    assert read_action(f"Let me look.\n{text}") == Action("Let me look.", (SEARCH, ToolRequest("stop")))


def test_text_without_a_call_is_an_answer():
    assert read_action(" [1, 2]\n") == Action("[1, 2]")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[{"name": "search", "arguments": {', "cannot be read"),
        ('search[ARGS]{"query": ', "cannot be read"),
        ("search", "cannot be read"),
        ("", "cannot be read"),
        ("[]", "an empty list"),
        ("[7]", "not a JSON object with a name"),
        ('[{"name": "search", "arguments": "Bonn"}]', "arguments must be a JSON object"),
        ("[" * 100_000, "cannot be read"),
    ],
    ids=["cut", "cut arguments", "name", "nothing", "empty", "number", "text", "deep"],
)
def test_a_malformed_call_is_told_with_what_would_be_right(text: str, told: str):
    action = read_action(f"Let me look. [TOOL_CALLS]{text}")
    assert told in action.error
    assert '[TOOL_CALLS] [{"name": "...", "arguments": {...}}]' in action.error
    assert (action.text, action.calls) == ("Let me look.", ())


def test_too_many_calls_in_one_turn_are_refused():
    assert read_action("[TOOL_CALLS]stop[ARGS]{}" * 9).error == "9 tool calls in one turn, at most 8 are allowed"


@settings(max_examples=30)
@given(st.lists(st.dictionaries(st.text(), st.text().filter(lambda t: "[TOOL" not in t)), min_size=1, max_size=3))
def test_what_is_written_is_read_back(arguments: list[dict[str, str]]):
    calls = tuple(ToolRequest("anything", each) for each in arguments)
    assert read_action(write_calls(calls)).calls == calls


def test_no_calls_are_written_as_nothing():
    assert write_calls(()) == ""


@given(st.text())
def test_no_text_is_too_strange(text: str):
    assert isinstance(read_action(text), Action)
    called = read_action(f"[TOOL_CALLS]{text}")
    assert bool(called.calls) != bool(called.error)
