"""OpenAI's chat completions as documents."""

import json
from typing import Any

import pytest

from rl.environments.contract import ToolRequest
from rl.environments.program.openai_chat import (
    CallRefused,
    ChatMessage,
    ChatReply,
    read_request,
    write_completion,
    write_stream,
)

USER = {"role": "user", "content": "Hello"}
SCHEMA = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}, "strict": True}}


def request(**fields: Any) -> Any:
    return read_request({"messages": [USER], **fields})


def test_messages_of_all_kinds_are_read():
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"page": 1}'}}
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}]},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "a page"},
        {"role": "tool", "tool_call_id": "c9", "content": "nothing"},
    ]
    assert request(messages=messages).messages == (
        ChatMessage("system", "Be kind."),
        ChatMessage("user", "Hello"),
        ChatMessage("assistant", "", (ToolRequest("look", {"page": 1}),)),
        ChatMessage("tool", "a page", name="look"),
        ChatMessage("tool", "nothing", name="unknown"),
    )


def test_what_is_asked_beside_the_messages():
    asked = request(tools=[SCHEMA], max_tokens=9, stop="END", stream=True, stream_options={"include_usage": True})
    assert (asked.tools, asked.most_tokens, asked.stop) == ((SCHEMA,), 9, ("END",))
    assert (asked.stream, asked.include_usage) == (True, True)
    assert request(tools=[SCHEMA], tool_choice="none").tools == ()
    assert request(max_completion_tokens=4, stop=["a", "b"]).stop == ("a", "b")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "an object with messages"),
        ({"messages": []}, "an object with messages"),
        ({"messages": [{"role": "function", "content": "x"}]}, "a message's role must be one of"),
        ({"messages": ["x"]}, "a message's role must be one of"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "a message's content must be text"),
        ({"messages": [USER], "n": 2}, "n must be 1"),
        ({"messages": [USER], "max_tokens": 0}, "max_tokens must be a whole number"),
        ({"messages": [USER], "tools": [{"type": "function"}]}, "tools must be a list of functions"),
        ({"messages": [USER], "stop": [1]}, "stop must be a text or a list of texts"),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "b", "arguments": "{"}}]}
                ]
            },
            "arguments that are a JSON object",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(document: Any, problem: str):
    with pytest.raises(CallRefused, match=problem):
        read_request(document)


def test_an_answer_with_calls():
    reply = ChatReply("Wait.", (ToolRequest("look", {"page": "ä"}),), tokens_in=5, tokens_out=7)
    document = write_completion(request(model="gpt"), reply)
    [choice] = document["choices"]
    assert (document["model"], choice["finish_reason"], choice["message"]["content"]) == ("gpt", "tool_calls", "Wait.")
    [call] = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "look", "arguments": '{"page": "ä"}'}
    assert document["usage"] == {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    assert write_completion(request(), ChatReply("", is_cut=True))["choices"][0]["finish_reason"] == "length"


def test_a_stream_says_the_same_in_parts():
    reply = ChatReply("Wait.", (ToolRequest("look", {}),))
    asked = request(stream=True, stream_options={"include_usage": True})
    *events, done = b"".join(write_stream(asked, reply)).decode().strip().split("\n\n")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    assert done == "data: [DONE]"
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert [next(iter(delta), None) for delta in deltas] == ["role", "content", "tool_calls", None]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]] == [None, None, None, "tool_calls"]
    assert chunks[-1]["usage"]["total_tokens"] == 0
