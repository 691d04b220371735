"""Anthropic's Messages API, with the official client."""

from functools import cache
from typing import Any

import anthropic
import httpx
import pytest

from tests.serving.gateway.conftest import Gateway
from tests.serving.gateway.upstream_double import UpstreamDouble

pytestmark = pytest.mark.process

TRACK = {"name": "track", "input_schema": {"type": "object", "properties": {"number": {"type": "string"}}}}


@cache
def client(url: str, key: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)


def ask(gateway: Gateway, content: Any = "hello", **options: Any) -> anthropic.types.Message:
    options = {"model": "support-chat", "max_tokens": 20, "messages": [{"role": "user", "content": content}]} | options
    return client(gateway.url, gateway.keys["all"]).messages.create(**options)


def trace_of(gateway: Gateway, message: anthropic.types.Message) -> dict[str, Any]:
    return gateway.trace(message.id.removeprefix("msg_"))


def test_a_message_is_a_trace_under_its_id(gateway: Gateway, upstream: UpstreamDouble):
    message = ask(
        gateway,
        system=[{"type": "text", "text": "Be brief."}],
        stop_sequences=["x"],
        metadata={"user_id": "anna"},
        thinking={"type": "disabled"},
        extra_body={"top_k": 3},
    )
    assert [block.text for block in message.content] == ["support-chat-v2 says hello 0"]
    assert (message.model, message.stop_reason, message.usage.output_tokens) == ("support-chat@v2", "end_turn", 5)
    assert upstream.last["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (upstream.last["stop"], upstream.last["top_k"], upstream.last["max_tokens"]) == (["x"], 3, 20)
    assert upstream.last["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}
    trace = trace_of(gateway, message)
    assert (trace["unit"], trace["response"]) == ("anna", message.content[0].text)
    assert trace["details"]["dialect"] == {"name": "messages"}


def test_a_message_is_rated_by_the_id_that_the_client_has(gateway: Gateway):
    message = ask(gateway)
    rating = {"trace": message.id, "rater": "anna", "scale": "thumb", "value": 1}
    key = {"Authorization": f"Bearer {gateway.keys['all']}"}
    assert httpx.post(f"{gateway.url}/api/v1/feedback/", json=rating, headers=key).status_code == 201


def test_a_stream_tells_thoughts_and_text_in_blocks(gateway: Gateway):
    asked = {"model": "support-chat", "max_tokens": 20, "messages": [{"role": "user", "content": "hello"}]}
    with client(gateway.url, gateway.keys["all"]).messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert (message.content[0].thinking, message.content[1].text) == ("hm", text)
    assert text == "support-chat-v2 says hello\u2028\x85."
    assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("end_turn", 7, 5)
    assert trace_of(gateway, message)["response"] == text


@pytest.mark.parametrize("streams", [False, True])
def test_a_tool_is_called_and_its_result_goes_on_with_the_run(
    gateway: Gateway, upstream: UpstreamDouble, streams: bool
):
    asked = {"role": "user", "content": "call a tool"}
    if streams:
        options: dict[str, Any] = {"model": "support-chat", "max_tokens": 20, "messages": [asked], "tools": [TRACK]}
        with client(gateway.url, gateway.keys["all"]).messages.stream(**options) as stream:
            first = stream.get_final_message()
    else:
        first = ask(gateway, messages=[asked], tools=[TRACK])
    (call,) = first.content
    assert (first.stop_reason, call.name, call.input) == ("tool_use", "track", {"number": "4711"})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "it left"}]}
    turns = [asked, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = ask(gateway, messages=turns, tools=[TRACK])
    assert upstream.last["messages"][-1] == {"role": "tool", "tool_call_id": "call_1", "content": "it left"}
    trace = trace_of(gateway, second)
    assert trace["llm_calls"] == 2
    assert [(step["tool_name"], step["result"]) for step in trace["tool_calls"]] == [("track", "it left")]


def test_pictures_thoughts_and_other_tools_are_passed_on_or_named(gateway: Gateway, upstream: UpstreamDouble):
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
    thought = {"type": "thinking", "thinking": "hm", "signature": ""}
    turns = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "Hi."}]},
        {"role": "user", "content": [picture, {"type": "text", "text": "What is it?"}]},
    ]
    raw = client(gateway.url, gateway.keys["all"]).messages.with_raw_response.create(
        model="support-chat",
        max_tokens=5,
        messages=turns,
        tools=[TRACK, {"type": "web_search_20250305", "name": "web_search"}],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
    )
    assert raw.headers["x-ratchet-left-out"] == "messages.thinking, tools.web_search_20250305"
    assert upstream.last["messages"][-1]["content"][0]["image_url"] == {"url": "data:image/png;base64,eA=="}
    assert upstream.last["messages"][-2] == {"role": "assistant", "content": "Hi."}
    assert (upstream.last["tool_choice"], upstream.last["parallel_tool_calls"]) == ("required", False)


def test_a_long_name_of_a_user_is_known_by_its_hash(gateway: Gateway):
    assert len(trace_of(gateway, ask(gateway, metadata={"user_id": "u" * 300}))["unit"]) == 64


def test_errors_are_anthropic_s(gateway: Gateway):
    with pytest.raises(anthropic.NotFoundError) as unknown:
        ask(gateway, model="nobody")
    assert unknown.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.AuthenticationError):
        client(gateway.url, "sk_unknown").messages.create(model="support-chat", max_tokens=5, messages=[])
    with pytest.raises(anthropic.BadRequestError, match=r"messages\[0\]\.content\[0\]\.type is 'audio'"):
        ask(gateway, [{"type": "audio"}])
    with pytest.raises(anthropic.BadRequestError, match="stop_sequences must be at most") as refused:
        ask(gateway, stop_sequences=["x" * 600])
    assert refused.value.body["request_id"] == refused.value.response.headers["x-request-id"]
    with pytest.raises(anthropic.BadRequestError, match=r"tools\[1\]\.input_schema"):
        ask(gateway, tools=[{"type": "bash_20250124", "name": "bash"}, {"name": "track", "input_schema": 3}])
    answer = httpx.post(f"{gateway.url}/v1/messages", content=b"x" * 200_000)
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "request_too_large")


def test_a_stream_that_breaks_ends_with_an_error(gateway: Gateway):
    asked = {"model": "support-chat", "max_tokens": 20, "messages": [{"role": "user", "content": "break off"}]}
    with pytest.raises(anthropic.APIError, match="out of memory"):  # noqa: SIM117
        with client(gateway.url, gateway.keys["all"]).messages.stream(**asked) as stream:
            list(stream)


def test_models_are_listed_for_its_clients(gateway: Gateway):
    models = {model.id: model for model in client(gateway.url, gateway.keys["all"]).models.list()}
    assert models["support-chat@v2"].display_name == "support-chat@v2"


def test_another_server_is_not_asked_to_count(gateway: Gateway):
    asked = {"model": "support-chat", "messages": [{"role": "user", "content": "hello"}]}
    with pytest.raises(anthropic.BadRequestError, match="how many tokens"):
        client(gateway.url, gateway.keys["all"]).messages.count_tokens(**asked)
