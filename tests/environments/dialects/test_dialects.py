import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects import DIALECTS, MOST_CALLS, dialect, without_thinking

CALLS = (ToolRequest("search", {"query": "Bonn", "most": 3}), ToolRequest("stop"))


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_reads_what_it_writes(name: str):
    assert dialect(name).read_action(dialect(name).write_calls(CALLS)).calls == CALLS


@pytest.mark.parametrize("writer", DIALECTS)
@pytest.mark.parametrize("reader", DIALECTS)
def test_no_dialect_takes_the_calls_of_another_for_its_own(writer: str, reader: str):
    if reader != writer:
        assert not dialect(reader).read_action(dialect(writer).write_calls(CALLS)).calls


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("It is 42.", "It is 42."),
        ("<think>\n6 times 7?\n</think>\n\nIt is 42.", "It is 42."),
        ("6 times 7?\n</think>\n\nIt is 42.", "It is 42."),
        ("<think>Perhaps <tool_call>{}</tool_call></think>No.", "No."),
        ("<think>one</think> <think>two</think> It is 42.", "It is 42."),
        ("[THINK]6 times 7?[/THINK]It is 42.", "It is 42."),
        ("<think>6 times", ""),
        ("Well. <think>6 times", "Well."),
    ],
)
def test_only_what_is_said_aloud_is_left(text: str, said: str):
    assert without_thinking(text) == said


def test_no_calls_are_written_as_nothing():
    assert {dialect(name).write_calls(()) for name in DIALECTS} == {""}


STOP = '{"name": "stop", "parameters": {}}'
MANY = {
    "hermes": [f"<tool_call>{STOP}</tool_call>"],
    "llama": [STOP, "; "],
    "mistral": ["[TOOL_CALLS]stop[ARGS]{}"],
}


@pytest.mark.parametrize("name", DIALECTS)
def test_too_many_calls_in_one_turn_are_refused(name: str):
    call, between = [*MANY[name], ""][:2]
    assert len(dialect(name).read_action(between.join([call] * MOST_CALLS)).calls) == MOST_CALLS
    told = dialect(name).read_action(between.join([call] * (MOST_CALLS + 1))).error
    assert told == "9 tool calls in one turn, at most 8 are allowed"


SAID = {
    "hermes": ("<tool_call>{}</tool_call>", '<tool_call>{"name": "...", "arguments": {...}}</tool_call>'),
    "llama": ("<|python_tag|>{}", '{"name": "...", "parameters": {...}}'),
    "mistral": ("[TOOL_CALLS]{}", '[TOOL_CALLS] [{"name": "...", "arguments": {...}}]'),
}
"""A call in its marks, and what would be right."""
NAMELESS = "not a JSON object with a name"


@pytest.mark.parametrize(
    ("name", "call", "told"),
    [
        ("hermes", '{"name": "search", "arguments": {', "cannot be read"),
        ("hermes", "search(Bonn)", "cannot be read"),
        ("hermes", "", "cannot be read"),
        ("hermes", '{"arguments": {}}', NAMELESS),
        ("hermes", '["search"]', NAMELESS),
        ("hermes", '{"name": 7}', NAMELESS),
        ("hermes", '{"name": "search", "arguments": "Bonn"}', "arguments must be a JSON object"),
        ("hermes", "[" * 100_000, "cannot be read"),
        ("llama", '{"name": "search", "parameters": {', "cannot be read"),
        ("llama", 'brave_search.call(query="Bonn")', "cannot be read"),
        ("llama", f"{STOP} and then", "text behind it"),
        ("llama", '{"name": 7, "parameters": {}}', NAMELESS),
        ("llama", '{"name": "search", "parameters": "Bonn"}', "parameters must be a JSON object"),
        ("llama", "[" * 100_000, "cannot be read"),
        ("llama", "", "cannot be read"),
        ("mistral", '[{"name": "search", "arguments": {', "cannot be read"),
        ("mistral", 'search[ARGS]{"query": ', "cannot be read"),
        ("mistral", "search", "cannot be read"),
        ("mistral", "", "cannot be read"),
        ("mistral", "[]", "an empty list"),
        ("mistral", "[7]", NAMELESS),
        ("mistral", '[{"name": "search", "arguments": "Bonn"}]', "arguments must be a JSON object"),
        ("mistral", "[" * 100_000, "cannot be read"),
    ],
)
def test_a_malformed_call_is_told_with_what_would_be_right(name: str, call: str, told: str):
    marks, shape = SAID[name]
    action = dialect(name).read_action(f"Let me see. {marks.format(call)}")
    assert told in action.error
    assert shape in action.error
    assert (action.text, action.calls) == ("Let me see.", ())


@pytest.mark.parametrize(
    "text",
    ['{"name": "search", "parameters": {', f"{STOP} and then", '{"name": 7, "parameters": {}}'],
    ids=["cut", "text", "number"],
)
def test_what_begins_like_a_call_of_llama_is_one_without_its_tag(text: str):
    assert dialect("llama").read_action(text).error


ARGUMENTS = st.dictionaries(st.text(), st.text() | st.integers())
MARKS = ["<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "<think>", "</think>", "[THINK]", "[/THINK]"]


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=30)
@given(st.lists(ARGUMENTS, min_size=1, max_size=3))
def test_what_is_written_is_read_back(name: str, arguments: list[dict[str, str | int]]):
    calls = tuple(ToolRequest("anything", each) for each in arguments)
    assert dialect(name).read_action(dialect(name).write_calls(calls)).calls == calls


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("mark", MARKS)
def test_an_argument_that_has_a_mark_in_it_is_read_back(name: str, mark: str):
    calls = (ToolRequest("write", {mark: f"\\{mark} in a manual", "many": [mark]}),)
    assert dialect(name).read_action(without_thinking(dialect(name).write_calls(calls))).calls == calls


@pytest.mark.parametrize("name", DIALECTS)
@given(st.text())
def test_no_text_is_too_strange(name: str, text: str):
    assert isinstance(dialect(name).read_action(text), Action)
    called = dialect(name).read_action(SAID[name][0].format(text))
    assert bool(called.calls) != bool(called.error)
