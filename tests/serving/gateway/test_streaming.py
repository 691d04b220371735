from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import openai
import pytest

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
    assert upstream.cancelled.wait(5)
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
