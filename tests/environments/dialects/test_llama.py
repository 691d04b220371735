import pytest

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
