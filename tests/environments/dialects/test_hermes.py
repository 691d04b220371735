from rl.environments.contract import Action, ToolRequest
from rl.environments.dialects.hermes import read_action


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
