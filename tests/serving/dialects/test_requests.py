"""What becomes of requests of each dialect, whatever stands in them."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.serving.dialects.dialect import UntranslatableRequest
from rl.serving.dialects.known import DIALECTS, dialect_at
from rl.serving.dialects.messages import MESSAGES
from rl.serving.dialects.responses import RESPONSES
from rl.serving.gateway.chat_request import parse_request
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import KnownKey

KEY = KnownKey(1, True, None)

KINDS = ["text", "message", "function", "custom", "user", "tool", "auto", "input_text", "tool_use", "tool_result"]
KEYS = ["type", "role", "content", "text", "name", "id", "source", "tools"]
TEXTS = st.text(max_size=3) | st.sampled_from(KINDS)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    ["input", "messages", "prompt", "tools", "tool_choice", "text", "reasoning", "system", "thinking", "metadata"]
    + ["include", "instructions", "output_config", "conversation", "previous_response_id", "stop_sequences", "logprobs"]
)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@given(sent=st.dictionaries(FIELDS, VALUES, max_size=4))
def test_a_request_becomes_a_chat_or_is_refused(dialect: Any, sent: dict[str, Any]):
    with suppress(UntranslatableRequest, Refusal):
        form = dialect.as_chat({"model": "a", **sent}, {name: [] for name in dialect.ids_in(sent)})
        assert parse_request(form, {}, KEY, dialect).messages


def test_the_address_tells_the_dialect():
    assert dialect_at("/v1/messages/count_tokens").name == "messages"
    assert dialect_at("/v1/responses/resp_1/").name == "responses"
    assert dialect_at("/v1/models").name == dialect_at("/v1/responsesx").name == "chat"


def chat_of(dialect: Any, **sent: Any) -> dict[str, Any]:
    return dialect.as_chat({"model": "a", **sent}, {}).document


def test_calls_of_one_turn_stay_one_message():
    items = [
        {"role": "user", "content": "Where?"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
        {"type": "function_call", "call_id": "c1", "name": "track", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "a"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "left"}]},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
    ]
    messages = chat_of(RESPONSES, input=items)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert messages[1]["content"] == "Let me look."
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["c1", "c2"]
    assert [message["content"] for message in messages[2:]] == ["left", "done"]


def test_allowed_tools_are_those_that_go_along():
    tools = [{"type": "function", "name": name} for name in "ab"]
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "b"}]}
    chat = chat_of(RESPONSES, input="hi", tools=tools, tool_choice=allowed)
    assert [tool["function"]["name"] for tool in chat["tools"]] == ["b"]
    assert chat["tool_choice"] == "required"


def test_forms_and_efforts_have_their_places():
    schema = {"type": "object"}
    text = {"format": {"type": "json_schema", "name": "a", "schema": schema, "strict": True}, "verbosity": "low"}
    chat = chat_of(RESPONSES, input="hi", text=text, reasoning={"effort": "low"})
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
    assert (chat["response_format"], chat["verbosity"], chat["reasoning_effort"]) == (form, "low", "low")
    config = {"effort": "high", "format": {"type": "json_schema", "schema": schema}}
    chat = chat_of(MESSAGES, messages=[{"role": "user", "content": "hi"}], output_config=config)
    assert (chat["response_format"]["json_schema"]["schema"], chat["reasoning_effort"]) == (schema, "high")


def test_results_come_before_what_a_person_adds_to_them():
    content = [
        {"type": "text", "text": "And?"},
        {"type": "tool_result", "tool_use_id": "c1", "content": []},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A page."}},
    ]
    messages = chat_of(MESSAGES, messages=[{"role": "user", "content": content}])["messages"]
    assert messages[0] == {"role": "tool", "tool_call_id": "c1", "content": ""}
    assert [part["text"] for part in messages[1]["content"]] == ["And?", "A page."]
