"""Has servers keep to a set or a schema, by doubles that take what vLLM and Ollama take, and pass over what these do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from rl.collect.feedback.kept_answers import ClosedAnswers, StructuredAnswers
from rl.data_formatter.answer_tree import Remembered
from rl.serving.gateway.chat_request import parse_request
from rl.serving.gateway.choosing import Chooser
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.forms import Forms
from rl.serving.gateway.refusals import Refusal
from rl.serving.gateway.routing import KnownAgent, KnownKey, Route, Served
from rl.serving.gateway.turns import Turns
from rl.serving.upstreams import Upstream

KEY = KnownKey(1, True, None)
VALUES = ("cards", "cash back", "identity")
SCHEMA = {"type": "object", "properties": {"team": {"enum": ["cards", "cash"]}}, "required": ["team"]}
FORM = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
Body = dict[str, Any]


class ServerDouble:
    """Answers each body by a function: a text, a status that is an error, or with a message of its own."""

    def __init__(self, say: Callable[[Body], str | int | tuple[int, Any]], written: str | int = "") -> None:
        """``written``: what the template of a server of ours makes of tools."""
        self.say, self.written = say, written
        self.bodies: list[Body] = []
        self.tried = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/apply-template":
            self.tried += 1
            refused = isinstance(self.written, int)
            return httpx.Response(self.written if refused else 200, json={"prompt": self.written})
        assert request.url.path == "/v1/chat/completions"
        self.bodies.append(body := json.loads(request.content))
        said = self.say(body)
        if not isinstance(said, str):
            status, message = said if isinstance(said, tuple) else (said, {"error": {"message": "refused"}})
            return httpx.Response(status, json=message)
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 1}})


def vllm(body: Body) -> str:
    """From 0.12 on: guided_choice is a field that it does not know."""
    return body.get("structured_outputs", {}).get("choice", ["Maybe cash?"])[-1]


def older_vllm(body: Body) -> str:
    return body.get("guided_choice", ["Maybe cash?"])[-1]


def ollama(body: Body) -> str:
    """It makes its own format of the schema; a schema of a text is answered by a JSON text."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return json.dumps(schema["enum"][-1]) if "enum" in schema else "Maybe cash?"


def closed_agent() -> dict[str, Any]:
    return {"closed": ClosedAnswers(VALUES, "", (), Remembered(()))}


def exchange(answers: dict[str, Any], is_ollama: bool = False, server: int | None = None, **body: Any) -> Exchange:
    forms = {"choice_forms": ("response_format",)} if is_ollama else {}
    served = Served(7, "v1", Upstream("http://server.example/v1", "m", context=2048, server=server, **forms))
    agent = KnownAgent(1, "route", datetime.now(UTC), "", 64, (served,), **answers)
    sent = {"model": "route", "messages": [{"role": "user", "content": "Where is it?"}], **body}
    return Exchange(KEY, parse_request(json.dumps(sent).encode(), {}, KEY), Route(agent, served))


def choose(server: ServerDouble, *exchanges: Exchange) -> list[str]:
    async def run() -> list[str]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(server)) as client:
            chooser, turns = Chooser(client, Forms(client)), Turns()
            said = []
            for each in exchanges:
                if chooser.chooses(each):
                    document = await chooser.answer(turns, each)
                else:
                    document = (await chooser.forms.ask(each)).json()
                said.append(document["choices"][0]["message"]["content"])
            return said

    return asyncio.run(run())


def ask(server: ServerDouble, *exchanges: Exchange) -> None:
    async def run() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(server)) as client:
            forms = Forms(client)
            for each in exchanges:
                await (await forms.ask(each)).aread()

    asyncio.run(run())


def complete(server: ServerDouble, *exchanges: Exchange) -> list[Any]:
    """The first choice of each completion."""

    async def run() -> list[Any]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(server)) as client:
            forms = Forms(client)
            return [(await forms.complete(each))["choices"][0] for each in exchanges]

    return asyncio.run(run())


def test_vllm_is_given_the_set_as_choices():
    server, asked = ServerDouble(vllm), exchange(closed_agent(), max_tokens=1, stream=True)
    assert choose(server, asked) == ["identity"]
    (body,) = server.bodies
    assert body["structured_outputs"] == {"choice": list(VALUES)}
    assert (body["temperature"], body["max_tokens"]) == (0, len("cash back") + 8)
    assert "response_format" not in body
    assert "stream_options" not in body
    assert asked.choosing == {"among": 3, "form": "structured_outputs"}


def test_an_older_vllm_passes_over_the_new_form_and_is_asked_in_the_old_one_from_then_on():
    server = ServerDouble(older_vllm)
    assert choose(server, *(exchange(closed_agent()) for _ in range(2))) == ["identity", "identity"]
    assert [next(name for name in body if "choice" in name or "outputs" in name) for body in server.bodies] == [
        "structured_outputs",
        "guided_choice",
        "guided_choice",
    ]


def test_ollama_is_given_the_set_as_a_schema_and_its_quotation_marks_are_taken_off():
    server, asked = ServerDouble(ollama), exchange(closed_agent(), is_ollama=True)
    assert choose(server, asked) == ["identity"]
    (body,) = server.bodies
    schema = {"type": "string", "enum": list(VALUES)}
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def test_a_server_that_keeps_to_no_set_answers_freely_and_is_not_asked_again():
    def strict(body: Body) -> str | int:
        return 400 if {"structured_outputs", "guided_choice", "response_format"} & body.keys() else "Maybe cash?"

    server = ServerDouble(strict)
    first, second = (exchange(closed_agent()) for _ in range(2))
    assert choose(server, first, second) == ["Maybe cash?"] * 2
    assert len(server.bodies) == 5
    assert first.choosing == {}


def test_a_request_that_is_wrong_in_itself_says_nothing_of_the_forms():
    async def left() -> bool:
        async with httpx.AsyncClient(transport=httpx.MockTransport(ServerDouble(lambda body: 400))) as client:
            forms = Forms(client)
            with pytest.raises(Refusal, match="refused"):
                await forms.choose(Turns(), exchange(closed_agent()))
            return forms.has_left(exchange(closed_agent()))

    assert asyncio.run(left())


def structured_agent() -> dict[str, Any]:
    return {"structure": StructuredAnswers(SCHEMA, "learned from 20 accepted answers")}


@pytest.mark.parametrize("is_ollama", [False, True])
def test_the_schema_goes_along_where_the_request_names_no_form(is_ollama: bool):
    server, asked = ServerDouble(lambda body: '{"team": "cash"}'), exchange(structured_agent(), is_ollama, n=2)
    ask(server, asked)
    assert server.bodies[0]["response_format"] == FORM
    assert asked.keeping == {"form": "json_schema", "reason": "learned from 20 accepted answers"}
    assert asked.document()["details"]["kept"] == asked.keeping
    assert "response_format" not in asked.document()["details"]["parameters"]


def test_an_answer_that_comes_to_an_end_by_itself_has_the_room_for_it_where_the_server_is_ours():
    server = ServerDouble(lambda body: "{}")
    ends = {"structure": StructuredAnswers({**SCHEMA, "additionalProperties": False}, "")}
    ask(server, exchange(ends, server=1), exchange(ends, server=1, max_tokens=9))
    ask(server, exchange(ends), exchange(structured_agent(), server=1))
    assert [body["max_tokens"] for body in server.bodies] == [2048, 9, 64, 64]


@pytest.mark.parametrize(
    "form",
    [
        {"response_format": {"type": "json_object"}},
        {"tools": [{"type": "function", "function": {"name": "look"}}]},
    ],
)
def test_the_form_that_a_request_names_goes_before_the_schema(form: Body):
    server, asked = ServerDouble(lambda body: "{}"), exchange(structured_agent(), **form)
    ask(server, asked)
    assert server.bodies[0].get("response_format") == form.get("response_format")
    assert asked.keeping == {}


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_refuses_the_schema_is_asked_once_more_without_and_not_again(status: int):
    server = ServerDouble(lambda body: status if "response_format" in body else "hm")
    first, second = (exchange(structured_agent()) for _ in range(2))
    ask(server, first, second)
    assert ["response_format" in body for body in server.bodies] == [True, False, False]
    assert first.keeping["form"] == second.keeping["form"] == "refused"


def test_a_server_that_breaks_is_not_asked_again():
    server = ServerDouble(lambda body: 500)
    with pytest.raises(Refusal, match="answered 500"):
        ask(server, exchange(structured_agent()))
    assert len(server.bodies) == 1


HALF = (500, {"error": {"message": "The model produced output that does not match the expected peg-native format"}})


@pytest.mark.parametrize("seed", [None, 7])
def test_an_answer_that_breaks_a_character_in_two_is_asked_for_once_more_with_another_seed(seed: int | None):
    server = ServerDouble(lambda body: HALF if len(server.bodies) == 1 else "{}")
    sent = {} if seed is None else {"seed": seed}
    [choice] = complete(server, exchange(structured_agent(), server=1, **sent))
    assert choice["message"]["content"] == "{}"
    assert [body.get("seed") for body in server.bodies] == ([None, None] if seed is None else [7, 8])
    assert all(body["response_format"] == FORM for body in server.bodies)


def test_an_answer_that_is_broken_twice_is_a_failure_of_the_server():
    server = ServerDouble(lambda body: HALF)
    with pytest.raises(Refusal, match="peg-native") as raised:
        complete(server, exchange(structured_agent(), server=1))
    assert (raised.value.status, len(server.bodies)) == (502, 2)
