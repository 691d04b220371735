"""Requests that clients are known to send, posted as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from rl.collect.otlp import JSON
from rl.dataset_builder.read.runs import read_run
from rl.models import Trace

REQUESTS = Path(__file__).with_name("otlp_requests")
QUESTION = [{"role": "user", "content": "Q?"}]
pytestmark = pytest.mark.django_db


@pytest.fixture
def post(secret_key: str) -> Any:
    def send(name: str) -> dict[str, Any]:
        """What was refused, and why."""
        body = (REQUESTS / f"{name}.json").read_bytes()
        answer = Client().post("/v1/traces", body, content_type=JSON, headers={"authorization": f"Bearer {secret_key}"})
        assert answer.status_code == 200, answer.content
        return answer.json().get("partialSuccess", {})

    return send


@pytest.mark.parametrize(
    ("name", "stored"), [("g9_float_in_integer", 1), ("g9_half_surrogate", 2), ("g9_negative_count", 1)]
)
def test_an_odd_value_costs_no_answer(post, name: str, stored: int):
    assert post(name) == {}
    assert [(trace.prompt, trace.response) for trace in Trace.objects.all()] == [(QUESTION, "A!")] * stored


@pytest.mark.parametrize(
    ("name", "thoughts"),
    [
        ("g10_openinference_thinking", ["secret plan"]),
        ("g10_thinking_part", ["secret"]),
        ("g10_messages_on_event", []),
        ("g10_vercel6", []),
    ],
)
def test_question_answer_and_thoughts_are_told_apart(post, name: str, thoughts: list[str]):
    assert post(name) == {}
    trace = Trace.objects.get()
    assert (trace.prompt, trace.response) == (QUESTION, "A!")
    assert [step["content"] for step in trace.reasoning_steps] == thoughts


def test_a_call_among_the_parts_is_a_call(post):
    assert post("g10_openinference_tool_use") == {}
    trace = Trace.objects.get()
    assert trace.response == 'Let me look\n<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    assert trace.details["otel"]["requested"] == [{"name": "f", "arguments": {"a": 1}, "id": "c1"}]


def test_a_question_without_text_is_refused_with_the_reason(post):
    refused = post("g10_empty_parts")
    assert refused["rejectedSpans"] == "1"
    assert "the last message of its user has no text" in refused["errorMessage"]
    assert not Trace.objects.exists()


def test_an_agent_says_its_last_words_after_what_it_did(post):
    assert post("g10_invoke_agent") == {}
    trace = Trace.objects.get()
    assert (trace.prompt, trace.response) == (QUESTION, "Final A!")
    assert [(call["tool_name"], call["arguments"], call["result"]) for call in trace.tool_calls] == [
        ("f", {"a": 1}, "12")
    ]
    run = read_run(tuple(trace.prompt), trace.response, json.dumps(trace.tool_calls), trace.details)
    assert [message["role"] for message in run.steps] == ["assistant", "tool"]
