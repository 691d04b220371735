"""Has servers keep to a set or a schema, by doubles that take what vLLM and Ollama take, and pass over what these do."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from rl.collect.feedback.kept_answers import ClosedAnswers, StructuredAnswers
from rl.data_formatter.answer_tree import Remembered
from rl.serving.dialects.dialect import ChatForm
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
            written = message.encode() if isinstance(message, str) else json.dumps(message).encode()
            return httpx.Response(status, content=written)
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
    return Exchange(KEY, parse_request(ChatForm(sent), {}, KEY), Route(agent, served))


def with_forms(server: ServerDouble, work: Callable[[httpx.AsyncClient, Forms], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with httpx.AsyncClient(transport=httpx.MockTransport(server)) as client:
            return await work(client, Forms(client))

    return asyncio.run(run())


def choose(server: ServerDouble, *exchanges: Exchange) -> list[str]:
    async def say(client: httpx.AsyncClient, forms: Forms) -> list[str]:
        chooser, turns = Chooser(client, forms), Turns()
        said = []
        for each in exchanges:
            document = await chooser.answer(turns, each) if chooser.chooses(each) else (await forms.ask(each)).json()
            said.append(document["choices"][0]["message"]["content"])
        return said

    return with_forms(server, say)


def ask(server: ServerDouble, *exchanges: Exchange) -> None:
    async def read(client: httpx.AsyncClient, forms: Forms) -> None:
        for each in exchanges:
            await (await forms.ask(each)).aread()

    with_forms(server, read)


def complete(server: ServerDouble, *exchanges: Exchange) -> list[Any]:
    """The first choice of each completion."""

    async def choices(client: httpx.AsyncClient, forms: Forms) -> list[Any]:
        return [(await forms.complete(each))["choices"][0] for each in exchanges]

    return with_forms(server, choices)


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
    async def left(client: httpx.AsyncClient, forms: Forms) -> bool:
        with pytest.raises(Refusal, match="refused"):
            await forms.choose(Turns(), exchange(closed_agent()))
        return bool(forms.choices_left(exchange(closed_agent())))

    assert with_forms(ServerDouble(lambda body: 400), left)


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


OWN_FORMS: dict[str, Any] = {
    "mistral": {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "max_tokens"]}]}},
    "google": [{"error": {"code": 400, "message": 'Invalid JSON payload: unknown name "max_tokens"'}}],
    "text": "max_tokens: unknown field",
    "other": {"reason": {"unknown": ["max_tokens"]}},
}


@pytest.mark.parametrize("form", OWN_FORMS)
def test_what_a_server_refuses_is_found_in_whatever_form_it_says_so(form: str):
    server = ServerDouble(lambda body: (422, OWN_FORMS[form]) if "max_tokens" in body else "hm")
    complete(server, exchange({}), exchange({}))
    assert ["max_tokens" in body for body in server.bodies] == [True, False, False]


@pytest.mark.parametrize("form", OWN_FORMS)
def test_what_a_server_says_in_its_own_form_reaches_the_client(form: str):
    with pytest.raises(Refusal, match="max_tokens"):
        complete(ServerDouble(lambda body: (422, OWN_FORMS[form])), exchange({}))


def test_a_page_is_no_reason():
    with pytest.raises(Refusal, match="refused the request"):
        complete(ServerDouble(lambda body: (400, "<html><h1>Bad Request</h1>")), exchange({}))


NAMED = {
    "user": "anna",
    "metadata": {"session_id": "s1"},
    "store": True,
    "safety_identifier": "a",
    "service_tier": "auto",
}


def test_who_names_a_user_for_the_gateway_is_answered_by_a_server_that_knows_no_users():
    server = ServerDouble(pydantic(*NAMED))
    first, second = (exchange({}, **NAMED) for _ in range(2))
    complete(server, first, second)
    assert [sorted(NAMED.keys() & body.keys()) for body in server.bodies[-2:]] == [[], []]
    assert len(server.bodies) == 1 + len(NAMED) + 1
    assert (first.request.unit, first.request.session_id) == ("anna", "s1")


def test_who_is_refused_for_words_about_users_keeps_his_own():
    """As templates do that want the roles to take turns."""
    words = "Conversation roles must alternate user/assistant"
    server = ServerDouble(lambda body: (400, {"error": {"message": words}}) if len(body["messages"]) > 1 else "hm")
    asked = {"role": "user", "content": "Hi"}
    with pytest.raises(Refusal, match="must alternate"):
        complete(server, exchange({}, user="anna", messages=[asked, asked]))
    server.bodies.clear()
    complete(server, exchange({}, user="anna"))
    assert [body["user"] for body in server.bodies] == ["anna"]


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
