from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects import dialect

read_action, write_calls = dialect("llama").read_action, dialect("llama").write_calls
SEARCH = '{"name": "search", "parameters": {"query": "Bonn"}}'


@pytest.mark.parametrize(
    "text",
    [
        SEARCH,
        f" <|python_tag|>{SEARCH}\n",
        '{"name": "search", "arguments": {"query": "Bonn"}}',
        '{"type": "function", "name": "search", "parameters": {"query": "Bonn"}}',
        f"{SEARCH};",
    ],
)
def test_a_call_is_read_in_all_the_ways_in_which_llama_writes_it(text: str):
    assert read_action(text) == Action("", (ToolRequest("search", {"query": "Bonn"}),))


def test_several_calls_have_semicolons_between_them():
    assert read_action(f'<|python_tag|>{SEARCH}; {{"name": "stop", "parameters": {{}}}}').calls == (
        ToolRequest("search", {"query": "Bonn"}),
        ToolRequest("stop"),
    )


def test_what_stands_before_the_tag_was_said():
    assert read_action(f"Let me look. <|python_tag|>{SEARCH}").text == "Let me look."


@pytest.mark.parametrize("text", ["It is 42.", '{"answer": 42}', "42", '{"name": "Bonn"}', "{1, 2}", "", "[1, 2]; 3"])
def test_other_text_is_an_answer_even_if_it_is_json(text: str):
    assert read_action(text) == Action(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"name": "search", "parameters": {', "cannot be read"),
        ('<|python_tag|>brave_search.call(query="Bonn")', "cannot be read"),
        (f"{SEARCH} and then", "text behind it"),
        ('{"name": 7, "parameters": {}}', "not a JSON object with a name"),
        ('{"name": "search", "parameters": "Bonn"}', "parameters must be a JSON object"),
        ("<|python_tag|>" + "[" * 100_000, "cannot be read"),
        ("<|python_tag|>", "cannot be read"),
    ],
    ids=["cut", "python", "text", "number", "no object", "deep", "nothing"],
)
def test_a_malformed_call_is_told_with_what_would_be_right(text: str, told: str):
    action = read_action(text)
    assert told in action.error
    assert '{"name": "...", "parameters": {...}}' in action.error
    assert not action.calls


def test_too_many_calls_in_one_turn_are_refused():
    assert read_action("; ".join([SEARCH] * 9)).error == "9 tool calls in one turn, at most 8 are allowed"


@settings(max_examples=30)
@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers()), min_size=1, max_size=3))
def test_what_is_written_is_read_back(arguments: list[dict[str, str | int]]):
    calls = tuple(ToolRequest("anything", each) for each in arguments)
    assert read_action(write_calls(calls)).calls == calls


@given(st.text())
def test_no_text_is_too_strange(text: str):
    assert isinstance(read_action(text), Action)
    called = read_action(f"<|python_tag|>{text}")
    assert bool(called.calls) != bool(called.error)
