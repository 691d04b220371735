"""What clients really send, of the versions that are named here: recorded, and shortened to what matters."""

import json
from typing import Any

import pytest

from rl.base.messages import requested_calls
from rl.collect.otlp import mapping
from rl.collect.traces import joining
from rl.models.traces import is_broken_off
from tests.collect.otlp.make_spans import chat, inference, say, span
from tests.collect.otlp.test_mapping import mapped

NUMBER = '{"number": "4711"}'
WORDS = '<tool_call>{"name": "track", "arguments": {"number": "4711"}}</tool_call>'
CALL = {"id": "call_1", "type": "function", "function": {"name": "track", "arguments": NUMBER}}


def completion(finish_reason: str | None = "stop", **message: Any) -> str:
    choice = {"index": 0, "message": {"role": "assistant", **message}}
    choices = [{**choice, **({"finish_reason": finish_reason} if finish_reason else {})}]
    return json.dumps({"id": "chatcmpl-1", "object": "chat.completion", "choices": choices})


def of_sdk(output: str = "", **said: str) -> dict[str, Any]:
    told = {f"llm.output_messages.0.message.{name.replace('__', '.')}": value for name, value in said.items()}
    provided = {"output.value": output, "output.mime_type": "application/json"} if output else {}
    return inference("LLM", llm__input_messages__0__message__role="user", **provided) | {
        "llm.input_messages.0.message.content": "Where is 4711?",
        "llm.output_messages.0.message.role": "assistant",
        **told,
    }


def only(attributes: dict[str, Any], **more: Any) -> Any:
    found = mapped(span(attributes, **more))
    assert found.refused == []
    (answer,) = found.answers
    return answer


def test_the_thoughts_of_the_sdk_stand_in_the_whole_response_alone():
    """openinference-instrumentation-openai 0.1.66."""
    whole = completion(content="In Bonn.", reasoning_content="hm")
    found = only(of_sdk(whole, content="In Bonn.") | {"llm.finish_reason": "stop"})
    assert (found.record.response, found.record.external_id) == ("In Bonn.", "chatcmpl-1")
    assert [step.content for step in found.record.reasoning_steps] == ["hm"]


@pytest.mark.parametrize("reason", [None, "length"])
def test_a_stream_that_died_has_no_reason_why_it_ended(reason: str | None):
    """openinference-instrumentation-openai 0.1.66; its span is marked as well done."""
    found = only(of_sdk(completion(reason, content="In Bo"), content="In Bo"))
    assert is_broken_off(found.record.details)
    assert not is_broken_off(only(of_sdk(completion("stop", content="In Bonn."), content="In Bonn.")).record.details)


OLDER = {
    "custom": ({"tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "sql", "input": '{"a": 1}'}}]}, "sql"),
    "function": ({"function_call": {"name": "track", "arguments": NUMBER}}, "track"),
}


@pytest.mark.parametrize("kind", OLDER)
def test_calls_of_other_kinds_stand_in_the_whole_response_alone(kind: str):
    message, name = OLDER[kind]
    found = only(of_sdk(completion("tool_calls", content=None, **message)))
    [call] = requested_calls(found.turn)
    assert (call.name, call.arguments) == (name, {"input": '{"a": 1}'} if name == "sql" else {"number": "4711"})


def test_earlier_calls_of_the_old_kind_are_calls():
    given = {
        "llm.input_messages.1.message.role": "assistant",
        "llm.input_messages.1.message.function_call_name": "track",
        "llm.input_messages.1.message.function_call_arguments_json": NUMBER,
        "llm.input_messages.2.message.role": "function",
        "llm.input_messages.2.message.content": "in Bonn",
    }
    found = only(of_sdk(completion(content="In Bonn."), content="In Bonn.") | given)
    assert [message["role"] for message in found.history.steps] == ["assistant", "tool"]
    assert requested_calls(found.history.steps[0])[0].arguments == {"number": "4711"}


@pytest.mark.parametrize("said", ["text", ""])
def test_a_call_beside_a_thought_is_one_call_and_has_a_name(said: str):
    """openinference-instrumentation-litellm 0.1.51: the call stands beside what says that there is one."""
    contents = {
        "contents__0__message_content__type": "reasoning",
        "contents__0__message_content__text": "hm",
        "contents__1__message_content__type": "tool_use",
    }
    for place in ("tool_calls__0__tool_call", "contents__1__tool_call"):
        contents |= {f"{place}__id": "call_1", f"{place}__function__name": "track"}
        contents |= {f"{place}__function__arguments": NUMBER}
    if said:
        contents |= {"contents__2__message_content__type": "text", "contents__2__message_content__text": said}
    found = only(of_sdk(**contents))
    assert found.record.response == "\n".join(filter(None, [said, WORDS]))
    assert [(call.name, call.id) for call in requested_calls(found.turn)] == [("track", "call_1")]
    assert [step.content for step in found.record.reasoning_steps] == ["hm"]


NAMELESS = [{"type": "tool_call", "id": "c1"}, {"type": "tool_use", "name": "", "input": {}}, {"type": "tool-call"}]


@pytest.mark.parametrize("part", NAMELESS)
def test_a_call_without_a_name_costs_its_answer_and_no_other(part: dict[str, Any]):
    odd = json.dumps([{"role": "assistant", "parts": [part]}])
    found = mapped(span(chat(gen_ai__output__messages=odd), id=1), span(chat(), id=2))
    assert [one.record.response for one in found.answers] == ["In Bonn."]
    assert "only text can be learned from" in found.refused[0].reason


def of_litellm(given: list[Any], said: str, calls: int = 0) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([{**say("assistant", *filter(None, [said])), "finish_reason": "stop"}]),
        "gen_ai.response.finish_reasons": ["tool_calls" if calls else "stop"],
        "llm.request.functions.0.name": "track",
        "llm.request.functions.0.description": "Where a parcel is.",
        "llm.request.functions.0.parameters": '{"type": "object", "properties": {"number": {"type": "string"}}}',
    }
    for number in range(calls):
        attributes[f"gen_ai.completion.{number}.function_call.name"] = "track"
        attributes[f"gen_ai.completion.{number}.function_call.arguments"] = '{"number": "47%s1"}' % (1 + number)
    return attributes


ASKED = [say("user", "Where is 4711?")]


@pytest.mark.parametrize("said", ["Let me look.", ""])
def test_calls_and_tools_may_stand_beside_the_messages(said: str):
    """LiteLLM 1.110.2 with ``callbacks = ["otel"]``."""
    found = only(of_litellm(ASKED, said, calls=2))
    assert [call.arguments for call in requested_calls(found.turn)] == [{"number": "4711"}, {"number": "4721"}]
    assert found.turn["content"] == said
    [tool] = found.record.details["tools"]
    assert tool["function"]["description"] == "Where a parcel is."
    assert list(tool["function"]["parameters"]["properties"]) == ["number"]


def test_a_loop_whose_calls_have_ids_only_when_they_are_told_again_is_one_run():
    """LiteLLM 1.110.2 with ``callbacks = ["otel"]``."""
    answer = {"role": "assistant", "parts": [{"type": "text", "content": ""}], "tool_calls": [CALL]}
    result = {"role": "tool", "parts": [{"type": "text", "content": "in Bonn"}], "tool_call_id": "call_1"}
    first = only(of_litellm(ASKED, "", calls=1), trace=1, id=1)
    last = only(of_litellm([*ASKED, answer, result], "In Bonn."), trace=2, id=2, at=2)
    assert joining.find([joining.begin(first)], last) is not None
    assert joining.find([joining.begin(last)], first) is not None


@pytest.mark.parametrize("reason", ["tool_calls", "tool-calls", "tool_use", "function_call"])
def test_words_beside_calls_that_the_client_does_not_tell_are_no_answer(reason: str):
    found = mapped(span(chat(said="Let me look.", gen_ai__response__finish_reasons=[reason])))
    assert [one.reason for one in found.refused] == [mapping.NO_CALLS]
    assert found.answers == []


def test_a_call_that_failed_needs_no_switch_for_its_messages():
    failed = chat()
    del failed["gen_ai.output.messages"]
    assert mapped(span(failed, error="out of memory")).without_content == 0
    assert mapped(span(failed)).without_content == 1
    assert mapped(span({"gen_ai.operation.name": "chat"}, error="out of memory")).without_content == 1
