import asyncio
import json
import time
from typing import Any

import httpx
import openai
import pytest

from rl.models.traces import is_broken_off
from tests.serving.gateway.conftest import Gateway
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.waiting import until

pytestmark = pytest.mark.process


WORDS = "support-chat-v2 says hello\u2028\x85."


def stream(gateway: Gateway, content: str = "hello", **options: Any) -> list[Any]:
    return list(gateway.say(content, stream=True, **options))


def text_of(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_pieces_come_under_the_trace_id_and_make_the_stored_answer(gateway: Gateway, upstream: UpstreamDouble):
    chunks = stream(gateway)
    assert text_of(chunks) == WORDS
    assert {chunk.model for chunk in chunks} == {"support-chat@v2"}
    (trace_id,) = {chunk.id for chunk in chunks}
    trace = gateway.trace(trace_id)
    assert trace["response"] == WORDS
    assert (trace["tokens_in"], trace["tokens_out"]) == (7, 5)
    assert [one["content"] for one in trace["reasoning_steps"]] == ["hm"]
    assert (trace["details"]["complete"], trace["details"]["stream"]) == (True, True)
    assert trace["details"]["time_to_first_token_ms"] <= trace["duration_ms"]
    assert upstream.last["stream_options"] == {"include_usage": True}


def test_usage_goes_to_those_who_asked(gateway: Gateway):
    assert all(chunk.usage is None and chunk.choices for chunk in stream(gateway))
    asked = stream(gateway, stream_options={"include_usage": True})
    assert asked[-1].usage.completion_tokens == 5


def test_pieces_come_as_the_model_says_them(gateway: Gateway):
    started = time.monotonic()
    times = [time.monotonic() - started for _ in gateway.say("talk slowly", stream=True)]
    assert times[-1] - times[0] > 0.5


def test_tool_calls_are_put_together(gateway: Gateway):
    chunks = stream(gateway, "call a tool")
    trace = gateway.trace(chunks[0].id)
    assert trace["response"] == '<tool_call>{"name": "track", "arguments": {"number": "4711"}}</tool_call>'
    assert trace["details"]["finish_reason"] == "tool_calls"


def test_the_headers_are_those_of_a_stream(gateway: Gateway):
    body = {"model": "support-chat", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    headers = {"Authorization": f"Bearer {gateway.keys['all']}"}
    with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", json=body, headers=headers) as answer:
        lines = list(answer.iter_raw())
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["x-ratchet-version"] == "v2"
    assert b"".join(lines).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("order", "reason"),
    [("break off", "broke off: out of memory"), ("end early", "ended the stream"), ("fall silent", "did not finish")],
)
def test_an_upstream_that_breaks_is_an_error_in_the_stream_and_in_the_trace(gateway: Gateway, order: str, reason: str):
    chunks: list[Any] = []
    with pytest.raises(openai.APIError, match=reason) as raised:
        chunks.extend(gateway.say(order, stream=True, user=f"of {order}"))
    assert raised.value.type == "upstream_error"
    ((trace_id,),) = until(lambda: gateway.site.query("SELECT id FROM rl_trace WHERE unit = ?", f"of {order}"))
    trace = gateway.trace(trace_id)
    assert reason in trace["details"]["error"]
    assert (trace["details"]["complete"], trace["response"]) == (False, WORDS)


def test_a_client_that_goes_away_leaves_what_was_said_and_stops_the_upstream(
    gateway: Gateway, upstream: UpstreamDouble
):
    upstream.cancelled.clear()
    with gateway.say("talk for ever", stream=True) as chunks:
        seen = [next(chunks) for _ in range(12)]
    assert upstream.cancelled.wait(60)
    trace = gateway.trace(seen[0].id)
    assert trace["response"].startswith(WORDS + " more")
    assert trace["details"]["complete"] is False
    assert "went away" in trace["details"]["error"]


def test_many_streams_run_side_by_side(gateway: Gateway):
    order: list[str] = []

    async def one(client: openai.AsyncOpenAI) -> str:
        messages: Any = [{"role": "user", "content": "talk slowly"}]
        pieces = await client.chat.completions.create(model="support-chat", messages=messages, stream=True)
        order.append("begun")
        said = [piece async for piece in pieces]
        order.append("ended")
        assert text_of(said) == WORDS
        return said[0].id

    async def together() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.keys["all"]) as client:
            return await asyncio.gather(*[one(client) for _ in range(60)])

    ids = asyncio.run(together())
    assert order.index("ended") > 10
    assert len({gateway.trace(trace_id)["id"] for trace_id in ids}) == 60


PARIS, X = {"city": "Paris"}, {"tz": "x"}
CALLS = {
    "g2_arguments_as_object": [("weather", PARIS)],
    "g2_head_at_index_0": [("weather", PARIS), ("time", X)],
    "g2_name_in_each_piece": [("weather", PARIS)],
    "g2_two_calls_without_ids": [("weather", PARIS), ("time", X)],
    "g2_whole_call_again": [("weather", PARIS)],
}


def play(gateway: Gateway, name: str) -> tuple[Any, dict[str, Any]]:
    """The message that the official client shows, and the stored trace."""
    messages: Any = [{"role": "user", "content": f"play {name}"}]
    with gateway.client().chat.completions.stream(model="support-chat", messages=messages) as stream:
        for _ in stream:
            pass
        said = stream.get_final_completion()
    return said.choices[0].message, gateway.trace(said.id)


def requested(trace: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(call["tool_name"], call["arguments"]) for call in trace["tool_calls"]]


@pytest.mark.parametrize("name", CALLS)
def test_tool_calls_are_stored_as_the_client_shows_them(gateway: Gateway, name: str):
    message, trace = play(gateway, name)
    assert [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls] == CALLS[name]
    assert requested(trace) == CALLS[name]
    assert trace["details"]["complete"] is True


@pytest.mark.parametrize("name", [*CALLS])
def test_what_goes_on_from_such_calls_is_one_run(gateway: Gateway, name: str):
    message, first = play(gateway, name)
    said = {"role": "assistant", "content": "", "tool_calls": [call.model_dump() for call in message.tool_calls]}
    results = [{"role": "tool", "tool_call_id": call.id, "content": "12"} for call in message.tool_calls]
    messages: Any = [{"role": "user", "content": f"play {name}"}, said, *results]
    answer = gateway.client().chat.completions.create(model="support-chat", messages=messages)
    trace = gateway.trace(answer.id)
    assert (trace["llm_calls"], requested(trace)) == (2, CALLS[name])
    until(lambda: not gateway.query("SELECT * FROM rl_trace WHERE id = ?", first["id"]))


def test_text_in_parts_is_the_answer_and_thoughts_are_thoughts(gateway: Gateway):
    message, trace = play(gateway, "g3_content_parts")
    assert (message.content, trace["response"]) == ("the answer", "the answer")
    assert [step["content"] for step in trace["reasoning_steps"]] == ["hmm"]


def test_a_whole_answer_is_shown_and_stored_alike_too(gateway: Gateway):
    said = gateway.say("answer in parts")
    message, trace = said.choices[0].message, gateway.trace(said.id)
    assert message.content == "Let me look."
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls] == [("weather", '{"a": 1}')]
    assert trace["response"].startswith("Let me look.\n<tool_call>")
    assert requested(trace) == [("weather", {"a": 1})]
    assert [step["content"] for step in trace["reasoning_steps"]] == ["hm"]


def test_a_call_of_the_old_form_is_a_call(gateway: Gateway):
    message, trace = play(gateway, "g3_function_call")
    assert (message.function_call.name, requested(trace)) == ("weather", [("weather", PARIS)])


@pytest.mark.parametrize("name", ["g4_ping", "g4_no_choices_key"])
def test_what_is_no_chunk_ends_no_answer(gateway: Gateway, name: str):
    message, trace = play(gateway, name)
    assert (message.content, trace["response"]) == ("hi there", "hi there")
    assert (trace["details"]["complete"], trace["details"]["finish_reason"]) == (True, "stop")


@pytest.mark.parametrize(("name", "reason"), [("g1_length", "length"), ("g1_content_filter", "content_filter")])
def test_an_answer_that_was_cut_says_so_and_its_arm_is_not_charged(gateway: Gateway, name: str, reason: str):
    arm = gateway.arms["tried"]["v1"]
    requests, failures = gateway.counts(arm)
    said = list(gateway.say(f"play {name}", model="tried", stream=True, user=name))
    assert [chunk.choices[0].finish_reason for chunk in said][-1] == reason
    trace = gateway.trace(said[0].id)
    assert is_broken_off(trace["details"])
    assert gateway.counts(arm) == (requests + 1, failures)


def test_an_arm_is_charged_for_what_its_server_failed_at(gateway: Gateway):
    arm = gateway.arms["tried"]["v1"]
    requests, failures = gateway.counts(arm)
    with pytest.raises(openai.APIError, match="provider died"):
        list(gateway.say("play g1_error_in_choice", model="tried", stream=True, user="charged"))
    with pytest.raises(openai.InternalServerError, match="broke off: died"):
        gateway.say("fail with 200", model="tried", user="charged")
    until(lambda: gateway.counts(arm) == (requests + 2, failures + 2))
    (row,) = until(lambda: gateway.query("SELECT * FROM rl_trace WHERE unit = 'charged'"))
    details = json.loads(row["details"])
    assert (row["response"], details["complete"], is_broken_off(details)) == ("half an ans", False, True)


def test_a_stream_of_what_is_no_chunk_is_no_answer(gateway: Gateway):
    body = {"model": "support-chat", "stream": True, "messages": [{"role": "user", "content": "play only_pings"}]}
    headers = {"Authorization": f"Bearer {gateway.keys['all']}"}
    said = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers).text
    assert "ended the stream before the answer was complete" in said
    assert "[DONE]" not in said
