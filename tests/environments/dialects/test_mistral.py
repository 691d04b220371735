import pytest

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
