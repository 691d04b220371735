"""Both dialects say the same things in other words, so they are tested side by side."""

import json
from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.collect.otlp import PROTOBUF, decode, gen_ai, openinference, vercel
from rl.collect.otlp.spans import Requested, SpanAnswer, ToolRun
from tests.collect.otlp.make_spans import body, chat, inference, say, span, tool

CALL = '<tool_call>{"name": "track", "arguments": {"number": "4711"}}</tool_call>'


def read(attributes: dict[str, Any], **more: Any) -> SpanAnswer | ToolRun | None:
    (found,) = decode(body(span(attributes, **more)), PROTOBUF)
    return vercel.read(found) or gen_ai.read(found) or openinference.read(found)


def answer(attributes: dict[str, Any], **more: Any) -> SpanAnswer:
    found = read(attributes, **more)
    assert isinstance(found, SpanAnswer)
    return found


def run(attributes: dict[str, Any], **more: Any) -> ToolRun:
    found = read(attributes, **more)
    assert isinstance(found, ToolRun)
    return found


CONVERSATION = [
    say("user", "Where is 4711?"),
    say("assistant", calls={"c1": ("track", {"number": "4711"})}),
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "in Bonn"}]},
]
EVERYTHING = {
    "gen_ai": {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "tiny",
        "gen_ai.response.model": "tiny-2",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.conversation.id": "talk-9",
        "gen_ai.agent.name": "desk",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be kind."}]),
        "gen_ai.input.messages": json.dumps(CONVERSATION),
        "gen_ai.output.messages": json.dumps([say("assistant", "It is in Bonn.")]),
    },
    "openinference": inference(
        "LLM",
        llm__model_name="tiny-2",
        session__id="talk-9",
        agent__name="desk",
        llm__token_count__prompt=12,
        llm__token_count__completion=4,
        llm__input_messages__0__message__role="system",
        llm__input_messages__0__message__content="Be kind.",
        llm__input_messages__1__message__role="user",
        llm__input_messages__1__message__contents__0__message_content__type="text",
        llm__input_messages__1__message__contents__0__message_content__text="Where is 4711?",
        llm__input_messages__2__message__role="assistant",
        llm__input_messages__2__message__tool_calls__0__tool_call__id="c1",
        llm__input_messages__2__message__tool_calls__0__tool_call__function__name="track",
        llm__input_messages__2__message__tool_calls__0__tool_call__function__arguments='{"number": "4711"}',
        llm__input_messages__3__message__role="tool",
        llm__input_messages__3__message__content="in Bonn",
        llm__output_messages__0__message__role="assistant",
        llm__output_messages__0__message__content="It is in Bonn.",
    ),
}


@pytest.mark.parametrize("dialect", EVERYTHING)
def test_a_model_call_is_read_with_all_that_it_says(dialect: str):
    found = answer(EVERYTHING[dialect])
    assert [(one["role"], one["content"]) for one in found.prompt] == [
        ("system", "Be kind."),
        ("user", "Where is 4711?"),
        ("assistant", CALL),
        ("tool", "in Bonn"),
    ]
    assert (found.response, found.model, found.session_id) == ("It is in Bonn.", "tiny-2", "talk-9")
    assert (found.kind, found.agent_name, found.tokens_in, found.tokens_out) == ("model", "desk", 12, 4)
    assert found.response_id == ("chatcmpl-1" if dialect == "gen_ai" else "")


ASKING = {
    "gen_ai": chat(said="Let me look.", calls={"c1": ("track", {"number": "4711"})}),
    "openinference": inference(
        "LLM",
        input__value="Where is 4711?",
        llm__output_messages__0__message__role="assistant",
        llm__output_messages__0__message__content="Let me look.",
        llm__output_messages__0__message__tool_calls__0__tool_call__id="c1",
        llm__output_messages__0__message__tool_calls__0__tool_call__function__name="track",
        llm__output_messages__0__message__tool_calls__0__tool_call__function__arguments='{"number": "4711"}',
    ),
}


@pytest.mark.parametrize("dialect", ASKING)
def test_a_tool_call_that_is_asked_for_stands_in_the_answer(dialect: str):
    found = answer(ASKING[dialect])
    assert found.response == f"Let me look.\n{CALL}"
    assert found.requested == (Requested("track", {"number": "4711"}, "c1"),)


LANGCHAIN = {"type": "tool", "data": {"content": "in Bonn", "tool_call_id": "c1", "status": "success"}}
ASKED = {"tool__name": "track", "input__value": '{"number": "4711"}'}
TOOLS = {
    "gen_ai": tool(call_id="c1"),
    "openinference": inference("TOOL", **ASKED, tool_call__id="c1", output__value="in Bonn"),
    "langchain": inference("TOOL", **ASKED, output__value=json.dumps(LANGCHAIN)),
}


@pytest.mark.parametrize("dialect", TOOLS)
def test_a_tool_span_is_read(dialect: str):
    found = run(TOOLS[dialect])
    assert (found.name, found.call_id, found.arguments, found.result) == ("track", "c1", {"number": "4711"}, "in Bonn")
    assert (found.failed, found.error) == (False, "")


@pytest.mark.parametrize("dialect", TOOLS)
def test_a_tool_that_failed_says_why(dialect: str):
    found = run(TOOLS[dialect], error="no such parcel")
    assert (found.failed, found.error) == (True, "no such parcel")


def test_other_ways_to_fail():
    assert run(tool(error__type="TimeoutError")).error == "TimeoutError"
    langchain = json.dumps({"type": "tool", "data": {"content": "boom", "status": "error"}})
    assert run(inference("TOOL", output__value=langchain)).failed
    event = ("exception", {"exception.message": "boom"})
    assert run(inference("TOOL", tool__name="t"), error="", events=[event]).error == "boom"


def test_smolagents_records_keyword_arguments_of_its_own_wrapper():
    wrapped = json.dumps({"args": [], "sanitize_inputs_outputs": True, "kwargs": {"number": "4711"}})
    assert run(inference("TOOL", input__value=wrapped)).arguments == {"number": "4711"}
    positional = json.dumps({"args": ["4711"], "kwargs": {}})
    assert run(inference("TOOL", input__value=positional)).arguments == {"args": ["4711"]}


def test_what_a_tool_says_in_plain_text_stays_text():
    for result in ("42", "true", "{not json", '"quoted"'):
        assert run(tool(result=result)).result == result
    assert run(tool(result='{"a": NaN}')).result == {"a": None}


def test_a_tool_without_a_name_has_that_of_its_span():
    attributes = tool()
    del attributes["gen_ai.tool.name"]
    assert run(attributes, name="execute_tool track").name == "track"


def test_messages_may_be_structured_attributes():
    structured = {
        **chat(),
        "gen_ai.input.messages": [say("user", "Where?")],
        "gen_ai.output.messages": [say("assistant", "Here.")],
    }
    found = answer(structured)
    assert (found.prompt[0]["content"], found.response) == ("Where?", "Here.")


def test_the_first_of_several_answers_counts():
    several = chat(gen_ai__output__messages=json.dumps([say("assistant", "one"), say("assistant", "two")]))
    assert answer(several).response == "one"


def test_reasoning_is_no_part_of_the_answer():
    parts = [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "Here."}]
    found = answer(chat(gen_ai__output__messages=json.dumps([{"role": "assistant", "parts": parts}])))
    assert (found.response, found.reasoning) == ("Here.", ("hm",))


def test_what_is_no_text_is_named():
    parts = [{"type": "text", "content": "What is this?"}, {"type": "blob", "modality": "image", "content": "AAAA"}]
    found = answer(chat(gen_ai__input__messages=json.dumps([{"role": "user", "parts": parts}])))
    assert found.prompt[0]["content"] == "What is this?\n[image]"
    found = answer(
        inference(
            "LLM",
            llm__input_messages__0__message__role="user",
            llm__input_messages__0__message__contents__0__message_content__type="image",
            llm__output_messages__0__message__role="assistant",
            llm__output_messages__0__message__content="A cat.",
        )
    )
    assert found.prompt[0]["content"] == "[image]"


@pytest.mark.parametrize(
    ("role", "known"),
    [
        ("developer", "system"),
        ("HUMAN", "user"),
        ("ai", "assistant"),
        ("tool-call", "assistant"),
        ("function", "tool"),
        ("tool-response", "tool"),
    ],
)
def test_roles_have_many_names(role: str, known: str):
    assert answer(chat(gen_ai__input__messages=json.dumps([say(role, "x")]))).prompt[0]["role"] == known


@pytest.mark.parametrize("role", ["narrator", "", None, 7, ["user"]])
def test_a_role_that_nobody_knows_is_refused(role: Any):
    with pytest.raises(UsageError, match="role"):
        read(chat(gen_ai__input__messages=json.dumps([{"role": role, "parts": []}])))


def test_messages_that_the_client_cut_off_are_refused_with_the_variable_to_look_at():
    with pytest.raises(UsageError, match="OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"):
        read(chat(gen_ai__input__messages='[{"role": "user", "par'))


def test_attributes_that_the_client_left_out_are_refused_with_the_variable_to_set():
    with pytest.raises(UsageError, match="OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000"):
        read(EVERYTHING["openinference"], dropped=40)


def test_json_in_a_span_of_openinference_is_no_text():
    given = inference("LLM", input__value='{"messages": []}', input__mime_type="application/json", output__value="x")
    assert answer(given).prompt == ()


@pytest.mark.parametrize(
    "messages", ["7", '"x"', "null", "[]", "[1, null]", "{}", '[{"parts": 5}]', '[{"role": "user"}]']
)
def test_messages_of_another_shape_are_no_content(messages: str):
    given = chat(gen_ai__output__messages=messages)
    assert answer(given).response == ""


@pytest.mark.parametrize(
    "name",
    [
        "llm.input_messages",
        "llm.input_messages.",
        "llm.input_messages.x.message",
        "llm.input_messages.0",
        "llm.input_messages.0.message",
        "llm.input_messages.99999999999.message.role",
        "llm.input_messages..message.role",
        "llm.input_messages.0.message.tool_calls.0",
        "llm.input_messages.0.message.contents.0.message_content.text.a.b",
    ],
)
def test_names_of_another_shape_are_passed_over(name: str):
    for value in ("x", 1, [1]):
        given = {**EVERYTHING["openinference"], name: value}
        assert answer(given).response == "It is in Bonn."


def test_other_spans_are_passed_over():
    for given in (
        {},
        {"gen_ai.operation.name": "embeddings"},
        {"gen_ai.operation.name": "invoke_workflow"},
        {"http.method": "GET"},
        {"gen_ai.operation.name": ["chat"]},
        inference("CHAIN"),
        inference("EMBEDDING"),
        inference("AGENT"),
    ):
        assert read(given) is None


def test_figures_of_another_type_are_as_good_as_missing():
    found = answer(chat(gen_ai__usage__input_tokens="12", gen_ai__usage__output_tokens=-1, gen_ai__response__id=7))
    assert (found.tokens_in, found.tokens_out, found.response_id) == (None, None, "")


PARTS: list[tuple[dict[str, Any], str]] = [
    ({"type": "thinking", "content": "hm"}, "thought"),
    ({"type": "thinking", "thinking": "hm", "signature": "x"}, "thought"),
    ({"type": "reasoning", "text": "hm"}, "thought"),
    ({"type": "tool_use", "id": "c1", "name": "track", "input": {"number": "4711"}}, "call"),
    ({"type": "function_call", "call_id": "c1", "name": "track", "arguments": '{"number": "4711"}'}, "call"),
    ({"type": "tool-call", "toolCallId": "c1", "toolName": "track", "input": {"number": "4711"}}, "call"),
]


@pytest.mark.parametrize(("part", "kind"), PARTS)
@pytest.mark.parametrize("form", ["parts", "content"])
def test_parts_have_many_names(part: dict[str, Any], kind: str, form: str):
    parts = [part, {"type": "text", "text": "Here."}]
    found = answer(chat(gen_ai__output__messages=json.dumps([{"role": "assistant", form: parts}])))
    asked = (Requested("track", {"number": "4711"}, "c1"),)
    assert found.reasoning == (("hm",) if kind == "thought" else ())
    assert found.requested == (asked if kind == "call" else ())
    assert found.response == (f"Here.\n{CALL}" if kind == "call" else "Here.")


@pytest.mark.parametrize(
    "result",
    [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "in Bonn"}]},
        {"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "in Bonn"}},
        {"type": "function_call_output", "call_id": "c1", "output": "in Bonn"},
    ],
)
def test_results_of_tools_have_many_names(result: dict[str, Any]):
    messages = [*CONVERSATION[:2], {"role": "tool", "content": [result]}]
    (*_, last) = answer(chat(gen_ai__input__messages=json.dumps(messages))).prompt
    assert last == {"role": "tool", "content": "in Bonn", "tool_call_id": "c1"}


@pytest.mark.parametrize("part", [{"type": "thinking", "content": "hm"}, {"type": "blob", "modality": "image"}])
def test_an_answer_without_words_is_refused_with_the_reason(part: dict[str, Any]):
    with pytest.raises(UsageError, match="is a thought alone|is of the kind 'image'"):
        read(chat(gen_ai__output__messages=json.dumps([{"role": "assistant", "parts": [part]}])))


ON_EVENTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "whole": [
        (
            "gen_ai.client.inference.operation.details",
            {name: EVERYTHING["gen_ai"][name] for name in ("gen_ai.input.messages", "gen_ai.output.messages")},
        )
    ],
    "of 2024": [
        ("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps([{"role": "user", "content": "Where is 4711?"}])}),
        ("gen_ai.content.completion", {"gen_ai.completion": '[{"role": "assistant", "content": "It is in Bonn."}]'}),
    ],
    "one each": [
        ("gen_ai.user.message", {"content": "Where is 4711?"}),
        ("gen_ai.choice", {"message": '{"content": "It is in Bonn."}', "finish_reason": "stop"}),
    ],
    "in one attribute": [
        ("gen_ai.user.message", {"gen_ai.event.content": '{"content": "Where is 4711?"}'}),
        ("gen_ai.choice", {"gen_ai.event.content": '{"message": {"content": "It is in Bonn."}, "index": 0}'}),
    ],
}


@pytest.mark.parametrize("form", ON_EVENTS)
def test_messages_may_stand_on_events(form: str):
    found = answer({"gen_ai.operation.name": "chat"}, events=ON_EVENTS[form])
    assert ("user", "Where is 4711?") in [(one["role"], one["content"]) for one in found.prompt]
    assert found.response == "It is in Bonn."


def test_earlier_calls_on_events_are_calls():
    call = {"id": "c1", "type": "function", "function": {"name": "track", "arguments": '{"number": "4711"}'}}
    events = [
        ("gen_ai.user.message", {"content": "Where is 4711?"}),
        ("gen_ai.assistant.message", {"gen_ai.event.content": json.dumps({"tool_calls": [call]})}),
        ("gen_ai.tool.message", {"content": "in Bonn", "id": "c1"}),
        ("gen_ai.choice", {"message": '{"content": "It is in Bonn."}'}),
    ]
    found = answer({"gen_ai.operation.name": "chat"}, events=events)
    assert [one["content"] for one in found.prompt] == ["Where is 4711?", CALL, "in Bonn"]
    assert found.prompt[2]["tool_call_id"] == "c1"


@pytest.mark.parametrize("operation", ["ai.generateText.doGenerate", "ai.streamText.doStream"])
def test_what_vercels_kit_says_is_read_whole(operation: str):
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Where is 4711?"}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c0", "toolName": "f", "input": {}}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c0", "toolName": "f", "output": "no"}]},
    ]
    calls = [{"toolCallId": "c1", "toolName": "track", "input": '{"number": "4711"}'}]
    found = answer(
        {
            "ai.operationId": operation,
            "gen_ai.operation.name": "chat",
            "ai.prompt.messages": json.dumps(messages),
            "ai.prompt.tools": [json.dumps({"type": "function", "name": "track", "inputSchema": {"type": "object"}})],
            "ai.response.text": "Let me look.",
            "ai.response.reasoning": "hm",
            "ai.response.toolCalls": json.dumps(calls),
            "ai.response.finishReason": "tool-calls",
            "ai.response.id": "chatcmpl-1",
            "ai.model.id": "tiny",
            "ai.usage.inputTokens": 12,
            "ai.usage.outputTokens": 4,
            "ai.telemetry.metadata.sessionId": "talk-9",
        }
    )
    assert [one["role"] for one in found.prompt] == ["system", "user", "assistant", "tool"]
    assert found.prompt[3] == {"role": "tool", "content": "no", "tool_call_id": "c0"}
    assert (found.response, found.reasoning) == (f"Let me look.\n{CALL}", ("hm",))
    assert (found.response_id, found.session_id, found.finish_reason) == ("chatcmpl-1", "talk-9", "tool-calls")
    assert (found.model, found.tokens_in, found.tokens_out) == ("tiny", 12, 4)
    assert [tool["function"]["name"] for tool in found.tools] == ["track"]


def test_a_tool_of_vercels_kit_is_a_tool():
    named = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "track", "ai.toolCall.id": "c1"}
    found = run({**named, "ai.toolCall.args": '{"number": "4711"}', "ai.toolCall.result": '"in Bonn"'})
    assert (found.name, found.call_id, found.arguments) == ("track", "c1", {"number": "4711"})
    assert read({"ai.operationId": "ai.generateText", "ai.prompt": "x", "ai.response.text": "y"}) is None


@pytest.mark.parametrize(
    ("written", "result"),
    [
        ('"in Bonn"', "in Bonn"),
        ('"4\\n7"', "4\n7"),
        ('{"city": "Bonn"}', {"city": "Bonn"}),
        ("42", "42"),
        ('"cut of', '"cut of'),
        ('"a", "b"', '"a", "b"'),
        ("in Bonn", "in Bonn"),
        (None, None),
    ],
)
def test_what_a_tool_of_vercels_kit_gave_back_is_read_as_it_writes_it(written: Any, result: Any):
    told = {} if written is None else {"ai.toolCall.result": written}
    assert run({"ai.operationId": "ai.toolCall", "ai.toolCall.name": "track", **told}).result == result


@pytest.mark.parametrize(
    ("output", "response_id"),
    [
        ({"id": "chatcmpl-1", "choices": []}, "chatcmpl-1"),
        ({"id": "msg_1", "type": "message", "content": []}, "msg_1"),
        ({"generations": [[{"message": {"kwargs": {"response_metadata": {"id": "chatcmpl-1"}}}}]]}, "chatcmpl-1"),
        ({"generations": [[]]}, ""),
        ({"id": 7, "choices": []}, ""),
        ({"id": "of something else"}, ""),
        ([1], ""),
    ],
)
def test_an_answer_has_the_id_that_its_server_gave_it(output: Any, response_id: str):
    given = {**EVERYTHING["openinference"], "output.value": json.dumps(output), "output.mime_type": "application/json"}
    assert answer(given).response_id == response_id


def test_a_call_that_is_told_twice_is_one():
    inner = "llm.output_messages.0.message.contents.0.message_content"
    given = {
        **ASKING["openinference"],
        f"{inner}.type": "tool_use",
        f"{inner}.tool_call.id": "c1",
        f"{inner}.tool_call.function.name": "track",
        f"{inner}.tool_call.function.arguments": '{"number": "4711"}',
    }
    del given["llm.output_messages.0.message.content"]
    assert answer(given).requested == (Requested("track", {"number": "4711"}, "c1"),)


@pytest.mark.parametrize(
    "messages",
    [
        [say("assistant", "Done.")],
        [say("assistant", calls={"c1": ("track", {})}), say("assistant", "Done.")],
        [say("assistant", "Let me look.", calls={"c1": ("track", {})}), *CONVERSATION[2:], say("assistant", "Done.")],
        [
            say("assistant", calls={"c1": ("track", {})}),
            *CONVERSATION[2:],
            say("assistant", "Done."),
            *CONVERSATION[2:],
        ],
    ],
)
def test_the_last_words_of_an_agent_are_its_answer(messages: list[Any]):
    given = chat(gen_ai__operation__name="invoke_agent", gen_ai__output__messages=json.dumps(messages))
    found = answer(given)
    assert (found.kind, found.response) == ("agent", "Done.")
    assert [one["role"] for one in found.prompt[1:]] == (["assistant", "tool"] if len(messages) > 2 else [])
