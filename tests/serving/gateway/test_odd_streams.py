"""Streams that servers are known to send, through the gateway to the official client."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from rl.models.traces import is_broken_off
from tests.serving.gateway.conftest import Gateway
from tests.waiting import until

pytestmark = pytest.mark.process

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
