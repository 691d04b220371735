import html
import json
from typing import Any

import pytest

from rl.collect.importers import openwebui_feedback
from tests.collect.importers.reading import document, one, taken
from tests.collect.importers.test_openwebui_feedback import changed, feedback

THOUGHT = (
    '<details type="reasoning" done="true" duration="5">\n<summary>Thought for 5 seconds</summary>\n{}\n</details>\n'
)


def tool(arguments: str, result: str = "&quot;12 degrees&quot;", body: str = "") -> str:
    return (
        f'<details type="tool_calls" done="true" id="call_1" name="weather" arguments="{arguments}" result="{result}" '
        f'files="">\n<summary>Tool Executed</summary>\n{body}</details>\n'
    )


def answered(folder: Any, content: str, **more: Any) -> Any:
    return one(openwebui_feedback, folder, changed(feedback(), "m2", content=content, **more))


@pytest.mark.parametrize(
    "content",
    [
        THOUGHT.format("&gt; Is it &lt;b&gt;?\n&gt; Yes.") + "It is 42.",
        THOUGHT.format("> Is it <b>?\n> Yes.") + "It is 42.",
        "<think>\nIs it <b>?\nYes.\n</think>\n\nIt is 42.",
        "<thinking>Is it <b>?\nYes.</thinking>It is 42.",
        "<|begin_of_thought|>Is it <b>?\nYes.<|end_of_thought|>\n<|begin_of_solution|>It is 42.<|end_of_solution|>",
    ],
)
def test_thoughts_are_thoughts_and_no_answer(tmp_path, content):
    trace = answered(tmp_path, content)
    assert trace.response == "It is 42."
    assert [(step.step_type, step.content) for step in trace.reasoning_steps] == [("reasoning", "Is it <b>?\nYes.")]


def test_an_answer_that_speaks_of_such_tags_keeps_them(tmp_path):
    content = "Write <think> before a thought, or <details><summary>x</summary>y</details>."
    assert answered(tmp_path, content).response == content


def test_an_answer_that_ended_in_a_thought_is_none(tmp_path):
    row = changed(feedback(), "m2", content='<details type="reasoning" done="false">\n<summary>x</summary>\n> Hm')
    found = list(openwebui_feedback.read(document(tmp_path, [row, feedback()])))
    assert "says nothing" in found[0].reason


ARGUMENTS = {"city": "Paris", "note": 'a "b" > c'}


@pytest.mark.parametrize(
    "arguments",
    [html.escape(json.dumps(ARGUMENTS)), html.escape(json.dumps(json.dumps(ARGUMENTS)))],
)
def test_tool_calls_are_tool_calls_with_their_results(tmp_path, arguments):
    trace = answered(tmp_path, f"Let me look.\n{tool(arguments)}It is 12 degrees.")
    (call,) = trace.tool_calls
    assert (call.tool_name, call.arguments, call.result) == ("weather", ARGUMENTS, "12 degrees")
    assert trace.response == "It is 12 degrees."
    assert [(step.step_type, step.content) for step in trace.reasoning_steps] == [("message", "Let me look.")]


def test_a_result_may_stand_in_the_text(tmp_path):
    (call,) = answered(tmp_path, tool("{}", result="", body="{&quot;count&quot;:1}") + "One.").tool_calls
    assert (call.arguments, call.result) == ({}, '{"count":1}')


def test_code_that_was_run_is_a_tool_call(tmp_path):
    content = (
        '<details type="code_interpreter" done="true" output="&quot;4&quot;">\n<summary>Analyzed</summary>\n'
        "```python\nprint(2 + 2)\n```\n</details>\nIt is 4."
    )
    trace = answered(tmp_path, content)
    (call,) = trace.tool_calls
    assert (call.tool_name, call.arguments, call.result) == (
        "code_interpreter",
        {"code": "```python\nprint(2 + 2)\n```"},
        "4",
    )
    assert trace.response == "It is 4."


def test_items_of_newer_versions_say_the_same(tmp_path):
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look it up."}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Paris"}'},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "12"}]},
        {"type": "message", "content": [{"type": "output_text", "text": "It is 12."}]},
    ]
    trace = answered(tmp_path, "whatever is shown", output=output)
    (call,) = trace.tool_calls
    assert (trace.response, call.arguments, call.result) == ("It is 12.", {"city": "Paris"}, "12")
    assert [step.content for step in trace.reasoning_steps] == ["Look it up."]


def test_earlier_answers_in_the_prompt_have_no_thoughts_either(tmp_path):
    row = changed(feedback("m5"), "m2", content=THOUGHT.format("> Hm.") + tool("{}") + "Hello.")
    trace = one(openwebui_feedback, tmp_path, row)
    words = [message["content"] for message in trace.prompt]
    assert "Hello." in words
    assert not any("<details" in text or "Hm." in text for text in words)


def test_rivals_are_read_the_same_way(tmp_path):
    row = changed(feedback(sibling_model_ids=["other"]), "m3", content=THOUGHT.format("> Hm.") + "No idea.")
    rival, _ = taken(openwebui_feedback, document(tmp_path, [row]))
    assert (rival.response, len(rival.reasoning_steps)) == ("No idea.", 1)
