"""Whole answers, with the official client."""

import hashlib
import json
import uuid

import pytest

from tests.serving.gateway.conftest import Gateway
from tests.serving.gateway.upstream_double import UpstreamDouble

pytestmark = pytest.mark.process


def test_the_champion_answers_and_the_answer_is_a_trace_under_the_id_of_the_response(gateway: Gateway):
    said = gateway.say("hello", temperature=0.5, seed=3)
    assert said.choices[0].message.content == "support-chat-v2 says hello 0"
    assert said.model == "support-chat@v2"
    assert uuid.UUID(said.id).version == 4
    trace = gateway.trace(said.id)
    assert trace["prompt"] == [{"role": "user", "content": "hello"}]
    assert trace["response"] == "support-chat-v2 says hello 0"
    assert (trace["source"], trace["external_id"], trace["llm_calls"]) == ("gateway", said.id, 1)
    assert (trace["tokens_in"], trace["tokens_out"]) == (7, 5)
    assert 0 < trace["duration_ms"] < 5000
    details = trace["details"]
    assert (details["finish_reason"], details["complete"], details["stream"]) == ("stop", True, False)
    assert details["parameters"] == {"temperature": 0.5, "seed": 3}
    (name,) = gateway.site.query("SELECT name FROM rl_modelversion WHERE id = ?", trace["model_version_id"])
    assert name == ("v2",)


def test_the_headers_name_the_trace_and_the_version(gateway: Gateway):
    raw = gateway.client().chat.completions.with_raw_response.create(
        model="support-chat", messages=[{"role": "user", "content": "hello"}]
    )
    assert raw.headers["x-ratchet-trace"] == raw.parse().id
    assert raw.headers["x-ratchet-version"] == "v2"
    assert "x-ratchet-arm" not in raw.headers
    assert raw.headers["cache-control"] == "no-store"


def test_the_upstream_gets_its_own_model_name_the_system_prompt_and_the_length(
    gateway: Gateway, upstream: UpstreamDouble
):
    gateway.say("hello", stop=["x"])
    assert upstream.last["model"] == "support-chat-v2"
    assert upstream.last["messages"][0] == {"role": "system", "content": "Be kind."}
    assert (upstream.last["max_tokens"], upstream.last["stop"]) == (64, ["x"])


def test_what_the_client_says_itself_is_left_alone(gateway: Gateway, upstream: UpstreamDouble):
    messages = [{"role": "developer", "content": "Be rude."}, {"role": "user", "content": "hello"}]
    gateway.client().chat.completions.create(model="support-chat", messages=messages, max_completion_tokens=9)
    assert upstream.last["messages"] == messages
    assert (upstream.last["max_completion_tokens"], upstream.last.get("max_tokens")) == (9, None)


def test_ollama_has_the_system_prompt_in_the_model_already(gateway: Gateway, upstream: UpstreamDouble):
    gateway.say("hello", model="llama")
    assert upstream.last["messages"] == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("model", "version"), [("support-chat@v3", "v3"), ("SUPPORT-CHAT@V1", "v1"), ("split@base", "base")]
)
def test_a_version_can_be_asked_for(gateway: Gateway, model: str, version: str):
    said = gateway.say(model=model)
    assert said.model.lower() == f"{model.partition('@')[0].lower()}@{version}"
    assert gateway.trace(said.id)["arm_id"] is None


def test_a_tool_call_is_kept_as_the_model_wrote_it_and_as_a_tool_call(gateway: Gateway):
    tools = [{"type": "function", "function": {"name": "track", "parameters": {}}}]
    said = gateway.say("call a tool", tools=tools)
    assert said.choices[0].message.tool_calls[0].function.name == "track"
    trace = gateway.trace(said.id)
    assert trace["response"] == '<tool_call>{"name": "track", "arguments": {"number": "4711"}}</tool_call>'
    assert [(one["tool_name"], one["arguments"]) for one in trace["tool_calls"]] == [("track", {"number": "4711"})]
    assert trace["details"]["tools"] == tools


def test_of_several_choices_the_first_is_the_answer(gateway: Gateway):
    said = gateway.say(n=2)
    trace = gateway.trace(said.id)
    assert len(said.choices) == 2
    assert trace["response"].endswith("0")
    assert [one["response"][-1] for one in trace["details"]["choices"]] == ["1"]


def test_parts_become_text_and_what_is_none_is_named(gateway: Gateway, upstream: UpstreamDouble):
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    trace = gateway.trace(gateway.say(parts).id)
    assert trace["prompt"] == [{"role": "user", "content": "What is this?\n[image]"}]
    assert upstream.last["messages"][-1]["content"] == parts


def test_a_session_and_a_user_are_kept(gateway: Gateway):
    said = gateway.say(user="anna", metadata={"session_id": "s-1"})
    trace = gateway.trace(said.id)
    assert (trace["unit"], trace["session_id"]) == ("anna", "s-1")
    said = gateway.say(user="anna", extra_headers={"X-Ratchet-Unit": "u-9", "X-Ratchet-Session": "s-2"})
    trace = gateway.trace(said.id)
    assert (trace["unit"], trace["session_id"]) == ("u-9", "s-2")


def test_the_same_prompt_has_the_same_key_as_everywhere(gateway: Gateway):
    canonical = json.dumps([["user", "hello"]], separators=(",", ":"))
    assert gateway.trace(gateway.say().id)["prompt_key"] == hashlib.sha256(canonical.encode()).hexdigest()


def test_a_model_list_names_agents_and_served_versions(gateway: Gateway):
    names = [one.id for one in gateway.client().models.list()]
    assert {"support-chat", "support-chat@v2", "split@base"} <= set(names)
    assert {"support-chat@v4", "nowhere"}.isdisjoint(names)
    assert [one.id for one in gateway.client("split").models.list()] == ["split", "split@v1", "split@base"]
    assert gateway.client().models.retrieve("support-chat").owned_by == "ratchet"
