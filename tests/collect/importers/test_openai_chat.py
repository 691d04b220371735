import pytest

from rl.base.records import ReasoningStep, ToolCall
from rl.collect.importers import openai_chat
from rl.dataset_builder.read.runs import read_run
from tests.collect.importers.reading import lines, one, reason, said, taken

HELLO = {"messages": [said("user", "Hi"), said("assistant", "Hello.")]}


def call(name: str, arguments: object, call_id: str = "c1") -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_the_last_answer_is_the_response(tmp_path):
    chat = [
        said("developer", "Be brief."),
        said("user", "Hi"),
        said("assistant", "Hello."),
        said("user", "How?"),
        said("assistant", "Fine."),
    ]
    trace = one(openai_chat, tmp_path, {"messages": chat})
    assert [message["role"] for message in trace.prompt] == ["system", "user", "assistant", "user"]
    assert trace.response == "Fine."
    assert trace.details == {"messages": chat}  # a developer is no system


def test_a_plain_chat_has_no_details(tmp_path):
    assert one(openai_chat, tmp_path, HELLO).details == {}


def test_tool_calls_find_their_results(tmp_path):
    asked = [call("find", '{"id": 7}', "a"), call("weather", '{"city": "Oslo"}', "b")]
    chat = [
        said("user", "Well?"),
        said("assistant", "Let me see.", tool_calls=asked, reasoning_content="Two things."),
        said("tool", "4 C", tool_call_id="b"),
        said("tool", "found", tool_call_id="a"),
        said("assistant", "Cold."),
    ]
    trace = one(
        openai_chat, tmp_path, {"messages": chat, "tools": [{"type": "function"}], "parallel_tool_calls": False}
    )
    assert trace.tool_calls == (
        ToolCall("find", {"id": 7}, "found"),
        ToolCall("weather", {"city": "Oslo"}, "4 C"),
    )
    assert trace.reasoning_steps == (
        ReasoningStep("Two things.", "reasoning"),
        ReasoningStep("Let me see.", "message"),
    )
    assert trace.prompt == ({"role": "user", "content": "Well?"},)
    assert trace.details == {"tools": [{"type": "function"}], "parallel_tool_calls": False}


def test_an_answer_may_be_a_tool_call_alone(tmp_path):
    trace = one(
        openai_chat, tmp_path, {"messages": [said("user", "?"), said("assistant", None, tool_calls=[call("f", "no")])]}
    )
    assert (trace.response, trace.tool_calls) == ("", (ToolCall("f", "no"),))


def test_the_old_function_calls_are_tool_calls(tmp_path):
    chat = [
        said("user", "?"),
        said("assistant", None, function_call={"name": "f", "arguments": "{}"}),
        said("function", "4", name="f"),
        said("assistant", "Four."),
    ]
    assert one(openai_chat, tmp_path, {"messages": chat}).tool_calls == (ToolCall("f", {}, "4"),)


def test_what_messages_say_beside_their_text_is_kept(tmp_path):
    chat = [
        said("user", [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "x"}}]),
        said("assistant", "A cat.", weight=0),
    ]
    trace = one(openai_chat, tmp_path, {"messages": chat})
    assert (trace.prompt[0]["content"], trace.response) == ("Look:", "A cat.")
    assert trace.details["messages"] == chat


def test_what_follows_the_answer_is_kept(tmp_path):
    chat = [said("user", "Hi"), said("assistant", "Hello."), said("user", "Bye")]
    trace = one(openai_chat, tmp_path, {"messages": chat})
    assert (len(trace.prompt), trace.response, trace.details["messages"]) == (1, "Hello.", chat)


PARTS = {
    "LLaMA-Factory": [
        {"type": "reasoning", "value": "Look it up."},
        {"type": "text", "value": "One moment."},
        {"type": "tool_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
    ],
    "Anthropic": [
        {"type": "thinking", "thinking": "Look it up.", "signature": "s"},
        {"type": "text", "text": "One moment."},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}},
    ],
}


@pytest.mark.parametrize("form", PARTS)
def test_thoughts_and_calls_among_the_parts_are_no_words(tmp_path, form):
    words = [{"type": "text", "value" if form == "LLaMA-Factory" else "text": "Four."}]
    run = [said("user", "2+2?"), said("assistant", PARTS[form]), said("tool", "4"), said("assistant", words)]
    trace = one(openai_chat, tmp_path, {"messages": run})
    assert (trace.response, [(call.tool_name, call.arguments, call.result) for call in trace.tool_calls]) == (
        "Four.",
        [("f", {"x": 1}, "4")],
    )
    assert [(step.step_type, step.content) for step in trace.reasoning_steps] == [
        ("reasoning", "Look it up."),
        ("message", "One moment."),
    ]
    later = one(openai_chat, tmp_path, {"messages": [*run, said("user", "Sure?"), said("assistant", "Yes.")]})
    asked, (called, *_) = read_run(later.prompt, later.response, None, later.details).prompt, later.prompt[1:]
    assert called == said("assistant", "One moment.")
    assert [call["function"]["arguments"] for call in asked[1]["tool_calls"]] == [{"x": 1}]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_thoughts_beside_the_words_are_thoughts(tmp_path, name):
    trace = one(openai_chat, tmp_path, {"messages": [said("user", "Hi"), said("assistant", "Hello.", **{name: "Hm."})]})
    assert (trace.response, [step.content for step in trace.reasoning_steps]) == ("Hello.", ["Hm."])


def test_the_id_depends_on_the_content_and_not_on_the_place(tmp_path):
    other = {"messages": [said("user", "Hi"), said("assistant", "Hm.")]}
    first = {one.response: one.external_id for one in taken(openai_chat, lines(tmp_path, HELLO, other))}
    second = {one.response: one.external_id for one in taken(openai_chat, lines(tmp_path, other, HELLO, HELLO))}
    assert first == second
    assert len(set(first.values())) == 2


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (None, "messages is missing"),
        ([], "messages must be a list of messages"),
        ("hi", "messages must be a list of messages"),
        ([1], "messages[0] is not an object"),
        ([said("king", "x")], "messages[0].role must be one of"),
        ([said(["user"], "x")], "messages[0].role must be one of"),
        ([said("user", 7), said("assistant", "x")], "messages[0].content must be text"),
        ([said("user", "x")], "messages has no message of the assistant"),
        ([said("assistant", "x")], "messages has nothing before the answer"),
        ([said("user", "x"), said("assistant", "", tool_calls=[{}])], "a tool call must name its function"),
        ([said("user", "x"), said("assistant", "", tool_calls="f")], "a tool call must name its function"),
    ],
)
def test_a_wrong_line_is_rejected_with_the_field(tmp_path, messages, why):
    assert reason(openai_chat, tmp_path, {"messages": messages}, HELLO).startswith(why)
