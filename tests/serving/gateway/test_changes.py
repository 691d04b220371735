"""Strict servers: what each refuses is left out or renamed, once found out, for as long as the process lives."""

from __future__ import annotations

from typing import Any

import pytest

from rl.serving.gateway.refusals import Refusal
from tests.serving.gateway.test_forms import Body, ServerDouble, ask, complete, exchange, structured_agent


def pydantic(*fields: str) -> Any:
    """Refuses fields that it does not know as FastAPI does."""

    def say(body: Body) -> str | tuple[int, Any]:
        extra = [{"type": "extra_forbidden", "loc": ["body", name]} for name in fields if name in body]
        return (422, {"detail": extra}) if extra else "hm"

    return say


def openai_reasoning(body: Body) -> str | tuple[int, Any]:
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": "max_tokens",
        "code": "unsupported_parameter",
    }
    return (400, {"error": error}) if "max_tokens" in body else "hm"


def wordless(body: Body) -> str | int:
    return 400 if "stream_options" in body else "hm"


@pytest.mark.parametrize("say", [pydantic("stream_options"), wordless])
def test_usage_in_streams_is_not_asked_for_again_where_it_is_refused(say):
    server = ServerDouble(say)
    ask(server, *(exchange({}, stream=True) for _ in range(2)))
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]
    assert all(body["stream"] is True for body in server.bodies)


def test_the_length_goes_under_the_name_that_the_server_takes():
    server = ServerDouble(openai_reasoning)
    complete(server, exchange({}), exchange({}, max_tokens=9))
    lengths = [{name: body[name] for name in body if name.startswith("max")} for body in server.bodies]
    assert lengths == [{"max_tokens": 64}, {"max_completion_tokens": 64}, {"max_completion_tokens": 9}]


def test_the_newer_name_of_the_length_becomes_the_older_one():
    server = ServerDouble(pydantic("max_completion_tokens"))
    complete(server, exchange({}, max_completion_tokens=9))
    assert server.bodies[-1]["max_tokens"] == 9
    assert "max_completion_tokens" not in server.bodies[-1]


def test_a_server_may_be_strict_in_all_of_it():
    server = ServerDouble(pydantic("stream_options", "max_tokens", "response_format"))
    first, second = (exchange(structured_agent(), stream=True) for _ in range(2))
    ask(server, first, second)
    assert set(server.bodies[-1]) == {"model", "messages", "stream", "max_completion_tokens"}
    assert server.bodies[-1] == server.bodies[-2]
    assert len(server.bodies) == 5
    assert first.keeping["form"] == second.keeping["form"] == "refused"


def test_who_refuses_usage_keeps_to_the_schema_nevertheless():
    server = ServerDouble(wordless)
    asked = exchange(structured_agent(), stream=True)
    ask(server, asked)
    assert "response_format" in server.bodies[-1]
    assert asked.keeping["form"] == "json_schema"


def test_a_set_survives_a_server_that_is_strict_about_lengths():
    from tests.serving.gateway.test_forms import VALUES, choose, closed_agent

    def say(body: Body) -> Any:
        return body["structured_outputs"]["choice"][0] if isinstance(said := openai_reasoning(body), str) else said

    server, asked = ServerDouble(say), exchange(closed_agent())
    assert choose(server, asked) == [VALUES[0]]
    assert asked.choosing["form"] == "structured_outputs"


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        ({"message": "too long", "param": "messages"}, 1),
        ({"message": "max_tokens is too large: 99999"}, 2),
        ({"message": "no"}, 2),
    ],
)
def test_the_clients_own_fault_comes_back_as_it_was_said_and_nothing_is_remembered(error: Body, asked: int):
    server = ServerDouble(lambda body: (400, {"error": error}) if body.get("stream") else "hm")
    with pytest.raises(Refusal) as raised:
        ask(server, exchange({}, stream=True))
    assert raised.value.message == error["message"]
    assert len(server.bodies) == asked
    complete(server, exchange({}))
    assert "max_tokens" in server.bodies[-1]


def test_a_server_of_ours_knows_both():
    server = ServerDouble(lambda body: 400)
    with pytest.raises(Refusal):
        ask(server, exchange({}, server=1, stream=True))
    assert len(server.bodies) == 1
