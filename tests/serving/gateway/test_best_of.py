"""The best of several answers, with the official client."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.serving.gateway.conftest import Gateway
from tests.serving.gateway.judge_double import JudgeDouble, judge_double
from tests.serving.gateway.upstream_double import UpstreamDouble
from tests.waiting import until

pytestmark = pytest.mark.process


@pytest.fixture
def socket_path(gateway: Gateway) -> Path:
    ((number,),) = gateway.site.query("SELECT id FROM rl_agent WHERE name = 'judged'")
    return gateway.site.data / "judges" / f"{number}.sock"


@pytest.fixture
def judge(socket_path: Path) -> Iterator[JudgeDouble]:
    with judge_double(socket_path) as double:
        yield double


def ask(gateway: Gateway, content: str = "say more each time", model: str = "judged@v1", **options: Any) -> Any:
    return gateway.say(content, model=model, seed=1, **options)


def judging(gateway: Gateway, said: Any) -> dict[str, Any]:
    return gateway.trace(said.id)["details"]["best_of"]


def test_the_client_gets_the_answer_that_the_judge_prefers(
    gateway: Gateway, judge: JudgeDouble, upstream: UpstreamDouble
):
    upstream.bodies.clear()
    said = ask(gateway)
    assert [choice.message.content for choice in said.choices] == ["word " * 4 + " 0"]
    assert said.model == "judged@v1"
    assert sorted(body["seed"] for body in upstream.bodies) == [1, 2, 3, 4]
    assert {body["temperature"] for body in upstream.bodies} == {0.8}
    (request,) = judge.requests
    assert request["prompt"] == [{"role": "user", "content": "say more each time"}]
    assert request["head"].endswith(".npz")
    assert sorted(map(len, request["answers"])) == [7, 12, 17, 22]


def test_the_usage_counts_the_tokens_of_all_answers(gateway: Gateway, judge: JudgeDouble):
    usage = ask(gateway).usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (7, 20, 27)


def test_the_trace_tells_how_it_was_chosen_and_keeps_the_others(gateway: Gateway, judge: JudgeDouble):
    trace = gateway.trace(ask(gateway).id)
    assert trace["response"] == "word " * 4 + " 0"
    details = trace["details"]
    best_of = details["best_of"]
    assert best_of.pop("judge_ms") < 5000
    ((label_model,),) = gateway.site.query(
        "SELECT l.id FROM rl_labelmodel l JOIN rl_agent a ON a.id = l.agent_id WHERE a.name = 'judged'"
    )
    assert best_of == {"of": 4, "asked": 4, "answered": 4, "ratings": [2.2, 1.7, 1.2, 0.7], "label_model": label_model}
    assert [(one["index"], len(one["response"])) for one in details["choices"]] == [(1, 17), (2, 12), (3, 7)]
    assert (details["complete"], details["finish_reason"], trace["tokens_out"]) == (True, "stop", 20)


def test_a_stream_is_what_was_chosen_with_its_usage_where_it_was_asked_for(gateway: Gateway, judge: JudgeDouble):
    chunks = list(ask(gateway, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "word " * 4 + " 0"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices] == [None, "stop"]
    assert chunks[-1].usage.completion_tokens == 20
    assert {chunk.model for chunk in chunks} == {"judged@v1"}
    assert gateway.trace(chunks[0].id)["details"]["stream"] is True
    assert all(chunk.usage is None for chunk in ask(gateway, stream=True))


def test_a_tool_call_is_streamed_as_one(gateway: Gateway, judge: JudgeDouble):
    chunks = list(ask(gateway, "call a tool", stream=True))
    (call,) = chunks[0].choices[0].delta.tool_calls
    assert (call.index, call.function.name, json.loads(call.function.arguments)) == (0, "track", {"number": "4711"})
    assert judge.requests[0]["answers"][0].startswith("<tool_call>")


def test_without_a_judge_that_knows_enough_one_answer_is_asked_for_and_the_trace_says_why(
    gateway: Gateway, upstream: UpstreamDouble
):
    upstream.bodies.clear()
    said = gateway.say("hello", model="unjudged")
    assert len(upstream.bodies) == 1
    assert "temperature" not in upstream.last
    why = "unjudged has no judge yet: run 'auto_label --agent unjudged'"
    assert judging(gateway, said) == {"of": 3, "asked": 1, "unjudged": why}
    streamed = list(gateway.say("hello", model="unjudged", stream=True))
    assert gateway.trace(streamed[0].id)["details"]["best_of"]["unjudged"] == why


def test_the_first_answer_is_given_while_the_judge_does_not_run(gateway: Gateway, socket_path: Path):
    assert not socket_path.exists()
    said = ask(gateway)
    assert said.choices[0].message.content == "word  0"
    assert judging(gateway, said)["unjudged"] == "the judge does not run: FileNotFoundError"


@pytest.mark.slow
def test_the_first_answer_is_given_when_the_judge_is_too_slow(gateway: Gateway, judge: JudgeDouble):
    judge.answers.clear()
    began = time.monotonic()
    said = ask(gateway)
    assert time.monotonic() - began >= 5
    assert said.choices[0].message.content == "word  0"
    found = judging(gateway, said)
    assert (found["unjudged"], found["asked"]) == ("the judge did not answer within 5 seconds", 4)
    assert "ratings" not in found


def test_the_first_answer_is_given_when_the_judge_breaks(gateway: Gateway, judge: JudgeDouble):
    judge.error = "the judge has learned from another base model"
    assert judging(gateway, ask(gateway))["unjudged"] == f"the judge broke: {judge.error}"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"temperature": 0}, "at temperature 0 all answers are the same"),
        ({"n": 2}, "the request asks for several answers itself"),
    ],
)
def test_a_request_for_which_it_would_be_for_nothing_is_passed_on(
    gateway: Gateway, judge: JudgeDouble, upstream: UpstreamDouble, options: dict[str, Any], why: str
):
    upstream.bodies.clear()
    said = ask(gateway, **options)
    assert len(said.choices) == options.get("n", 1)
    assert (len(upstream.bodies), judge.requests) == (1, [])
    assert judging(gateway, said) == {"of": 4, "asked": 1, "unjudged": why}


def test_the_temperature_of_the_request_counts(gateway: Gateway, judge: JudgeDouble, upstream: UpstreamDouble):
    upstream.bodies.clear()
    ask(gateway, temperature=0.3)
    assert {body["temperature"] for body in upstream.bodies} == {0.3}


def test_of_answers_that_fail_the_others_are_judged(gateway: Gateway, judge: JudgeDouble):
    found = judging(gateway, ask(gateway, "fail the second"))
    assert (found["asked"], found["answered"], len(found["ratings"])) == (4, 3, 3)


def test_what_the_server_refuses_is_refused(gateway: Gateway, judge: JudgeDouble):
    with pytest.raises(openai.BadRequestError, match="too long"):
        ask(gateway, "status 400")
    assert judge.requests == []


def test_a_client_that_goes_away_ends_all_of_its_requests(
    gateway: Gateway, judge: JudgeDouble, upstream: UpstreamDouble
):
    upstream.left = 0
    body = {"model": "judged@v1", "messages": [{"role": "user", "content": "wait"}]}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{gateway.url}/v1/chat/completions",
            json=body,
            headers={"Authorization": f"Bearer {gateway.keys['all']}"},
            timeout=1,
        )
    until(lambda: upstream.left == 4)


def test_an_arm_has_a_number_of_answers_of_its_own(gateway: Gateway, judge: JudgeDouble, upstream: UpstreamDouble):
    asked = {}
    for unit in map(str, range(8)):
        upstream.bodies.clear()
        raw = gateway.client().chat.completions.with_raw_response.create(
            model="judged", messages=[{"role": "user", "content": "say more each time"}], user=unit, seed=1
        )
        asked[raw.headers["x-ratchet-version"]] = (len(upstream.bodies), int(raw.headers["x-ratchet-arm"]))
    assert asked == {"v1": (1, gateway.arms["judged"]["v1"]), "v2": (4, gateway.arms["judged"]["v2"])}
