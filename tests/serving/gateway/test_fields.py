"""Which fields of a request pass, in which bounds."""

from pathlib import Path
from typing import Any

import openai
import pytest
from django.conf import settings

from rl.serving.gateway.fields import FIELDS, choose_fields
from rl.serving.gateway.refusals import Refusal
from tests.serving.gateway.conftest import Gateway
from tests.serving.gateway.upstream_double import UpstreamDouble

CHAT = {"model": "support-chat", "messages": [{"role": "user", "content": "hello"}]}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "description": "…", "parameters": SCHEMA, "strict": True}}
JSON = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}
LOOSE = {"enum": [f"value {number}" for number in range(300)]}
HONEST: dict[str, list[Any]] = {
    "temperature": [0, 0.7, 2],
    "top_p": [0, 1],
    "top_k": [-1, 0, 40],
    "min_p": [0.05],
    "typical_p": [1.0],
    "presence_penalty": [-2, 2],
    "frequency_penalty": [0.5],
    "repeat_penalty": [1.1],
    "repetition_penalty": [1.05],
    "repeat_last_n": [0, 64],
    "logit_bias": [{}, {"50256": -100, "1": 0.5}],
    "seed": [0, -1, 2**62],
    "n": [1, 3, 8],
    "max_tokens": [1, 100_000_000],
    "max_completion_tokens": [256],
    "stop": ["\n", ["a", "b", "c", "d"]],
    "logprobs": [True, False],
    "top_logprobs": [0, 20],
    "response_format": [{"type": "text"}, {"type": "json_object"}, {"type": "json_object", "schema": SCHEMA}, JSON],
    "tools": [[], [TOOL], [{"type": "function", "function": {"name": "now"}}]],
    "tool_choice": ["none", "auto", "required", {"type": "function", "function": {"name": "weather"}}],
    "parallel_tool_calls": [False],
    "reasoning_effort": ["low"],
    "verbosity": ["low"],
    "chat_template_kwargs": [{"enable_thinking": False}],
    "stream": [True],
    "stream_options": [{"include_usage": True}],
    "user": ["customer-17"],
    "safety_identifier": ["7f3a"],
    "metadata": [{"session_id": "s1", "turn": 3}],
    "store": [False],
    "service_tier": ["auto"],
    "prompt_cache_key": ["k"],
}
BAD: list[tuple[str, Any]] = [
    *[("temperature", value) for value in (-0.1, 2.1, "0.5", True, [0])],
    *[("top_p", value) for value in (-1, 1.01, {})],
    *[("top_k", value) for value in (-2, 10**18, 1.5)],
    *[("repeat_last_n", value) for value in (-1, 10**9)],
    ("repeat_penalty", 0),
    *[("n", value) for value in (0, -1, 9, 100_000, 1.0, "2", True)],
    *[(name, value) for name in ("max_tokens", "max_completion_tokens") for value in (0, -1, 1.5, "many", True)],
    *[("stop", value) for value in ("", [""], ["s"] * 17, "x" * 501, [5], {}, 5)],
    *[("top_logprobs", value) for value in (-1, 21, 50_000)],
    ("logprobs", 5),
    *[("logit_bias", value) for value in ({"hello": 1}, {"5": 101}, {"5": "x"}, {"-5": 1}, [[5, 1]])],
    ("logit_bias", {str(token): 1 for token in range(301)}),
    ("seed", 1.5),
    *[("messages", value) for value in ([], "hello", {}, [{"role": "user", "content": "a"}] * 1001)],
    *[("stream", value) for value in ("yes", 1)],
    ("stream_options", []),
    *[
        ("tools", value)
        for value in ({}, ["x"], [{"type": "function"}], [{"type": "custom", "custom": {}}], [TOOL] * 129)
    ],
    ("tools", [{"type": "function", "function": {"name": ""}}]),
    ("tools", [{"type": "function", "function": {"name": "a", "description": 5}}]),
    ("tools", [{"type": "function", "function": {"name": "a", "parameters": []}}]),
    ("tools", [{"type": "function", "function": {"name": "a", "parameters": LOOSE}}]),
    *[("tool_choice", value) for value in ("any", {"type": "function"}, 5)],
    *[("tool_choice", value) for value in ("required", {"type": "function", "function": {"name": "weather"}})],
    *[("response_format", value) for value in ("json", {"type": "grammar"}, {"type": "json_schema"}, {})],
    ("response_format", {"type": "json_schema", "json_schema": {"name": "a"}}),
    ("response_format", {"type": "json_schema", "json_schema": {"name": "a", "schema": LOOSE}}),
    ("response_format", {"type": "json_object", "schema": LOOSE}),
    *[("metadata", value) for value in ("x", {"a": {"b": 1}}, {"a": "x" * 513}, {str(i): i for i in range(65)})],
    ("chat_template_kwargs", {"a": [1]}),
    *[("user", value) for value in (5, "x" * 600)],
    *[(name, "root ::= [a-z]?") for name in ("grammar", "guided_grammar", "guided_regex", "json_schema")],
    ("functions", [{"name": "weather"}]),
]


def test_every_field_is_tried_and_documented():
    assert {name for name, value in BAD} <= set(FIELDS)
    section = (
        (Path(settings.BASE_DIR) / "docs/gateway.md").read_text().split("## What is passed on")[1].split("\n## ")[0]
    )
    passed, refused = section.split("**Refused**")
    assert [name for name in (*HONEST, "model", "messages") if f"`{name}`" not in passed] == []
    never = FIELDS.keys() - HONEST.keys() - {"model", "messages"}
    assert [name for name in sorted(never) if f"`{name}`" not in refused] == []


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in HONEST.items() for value in values])
def test_what_clients_send_passes_as_it_is(name: str, value: Any):
    sent = {**CHAT, **({"tools": [TOOL]} if name == "tool_choice" else {}), name: value}
    assert choose_fields(sent) == (sent, [])


@pytest.mark.parametrize("tools", [None, [], [TOOL]])
def test_a_call_that_no_tool_can_answer_is_not_demanded(tools: list[Any] | None):
    other = {"type": "function", "function": {"name": "nobody"}}
    with pytest.raises(Refusal, match="names a function that is not among the tools"):
        choose_fields({**CHAT, "tools": tools, "tool_choice": other})
    assert choose_fields({**CHAT, "tools": tools, "tool_choice": "auto"})[0]["tool_choice"] == "auto"


@pytest.mark.parametrize(("name", "value"), BAD, ids=range(len(BAD)))
def test_what_is_out_of_bounds_is_refused_by_the_name_of_its_field(name: str, value: Any):
    with pytest.raises(Refusal) as caught:
        choose_fields({**CHAT, name: value})
    assert (caught.value.status, caught.value.kind) == (400, "invalid_request_error")
    assert (caught.value.param or "").startswith(name)


@pytest.mark.process
def test_the_client_learns_which_field_is_wrong(gateway: Gateway, upstream: UpstreamDouble):
    before = len(upstream.bodies)
    with pytest.raises(openai.BadRequestError, match="leave open more than 256 ways") as caught:
        gateway.say(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": LOOSE}})
    assert (caught.value.param, caught.value.code) == ("response_format.json_schema.schema", "schema_too_complex")
    with pytest.raises(openai.BadRequestError, match="n must be a whole number from 1 to 8"):
        gateway.say(n=1000)
    assert len(upstream.bodies) == before


@pytest.mark.process
def test_what_nobody_knows_is_left_out_and_named(gateway: Gateway, upstream: UpstreamDouble):
    raw = gateway.client().chat.completions.with_raw_response.create(
        model="support-chat",
        messages=[{"role": "user", "content": "hello"}],
        seed=5,
        top_p=None,
        extra_body={"id_slot": 3, "samplers": ["x"], "mirostat": 2, "n_probs": 9, "straße\n": 1},
    )
    assert raw.headers["x-ratchet-left-out"] == "id_slot, mirostat, n_probs, samplers, stra%C3%9Fe%0A"
    assert upstream.last.keys() == {"model", "messages", "seed", "max_tokens"}
    assert "x-ratchet-left-out" not in gateway.client().chat.completions.with_raw_response.create(**CHAT).headers


@pytest.mark.process
def test_no_more_tokens_are_asked_for_than_the_context_holds(gateway: Gateway, upstream: UpstreamDouble):
    gateway.say(max_tokens=10**8, max_completion_tokens=50)
    assert (upstream.last["max_tokens"], upstream.last["max_completion_tokens"]) == (131_072, 50)
    gateway.site.change("UPDATE rl_deployment SET settings = '{\"num_ctx\": 512}' WHERE target = 'ollama'")
    gateway.say(model="llama", max_tokens=10**8)
    while upstream.last["max_tokens"] != 512:  # the table is read every two seconds
        gateway.say(model="llama", max_tokens=10**8)
