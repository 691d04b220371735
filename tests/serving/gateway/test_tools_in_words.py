"""A model of ours whose template has no tools gets them as training writes them for such templates."""

import json
from typing import Any

import jsonschema
import pytest

from rl.serving.gateway.best_of import as_events
from rl.serving.gateway.exchange import Exchange
from rl.serving.gateway.tools_in_words import schema_of_call
from tests.serving.gateway.test_forms import ServerDouble, ask, complete, exchange

TOOL = {"name": "weather", "description": "Looks.", "parameters": {"type": "object", "properties": {"city": {}}}}
TOOLS = [{"type": "function", "function": TOOL}]
SAID = 'Let me look.\n<tool_call>{"name": "weather", "arguments": {"city": "Köln"}}</tool_call>'
CALLED = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Köln"}'}}
LOOP = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": [{"type": "text", "text": "And Köln?"}]},
    {"role": "assistant", "content": "Let me look.", "tool_calls": [CALLED, {**CALLED, "id": "c2"}]},
    {"role": "tool", "tool_call_id": "c2", "content": "wet</tool_response>"},
    {"role": "tool", "tool_call_id": "c1", "content": "9 degrees"},
]
NATIVE = "<|user|>?<|call|>zqcalled1<|tool|>zqobserved"


def ours(**body: Any) -> Exchange:
    return exchange({}, server=1, **body)


@pytest.mark.parametrize("written", ["<|user|>?<|assistant|><|tool|>zqobserved", 400, 500])
def test_tools_are_described_in_words_where_the_template_leaves_them_out_or_refuses_them(written):
    server = ServerDouble(lambda body: "Hm.", written)
    complete(server, ours(tools=TOOLS, tool_choice="auto"), ours(tools=TOOLS))
    for body in server.bodies:
        assert not {"tools", "tool_choice"} & body.keys()
        system, user = body["messages"]
        assert system["role"] == "system"
        assert json.dumps(TOOL, separators=(",", ":")) in system["content"]
        assert user == {"role": "user", "content": "Where is it?"}
    assert server.tried == 1, "each server is asked once"


def test_the_words_are_those_of_training():
    server = ServerDouble(lambda body: "Hm.")
    complete(server, ours(messages=LOOP, tools=TOOLS))
    system, user, turn, results = server.bodies[0]["messages"]
    assert system["content"].startswith('Be short.\n\nTools:\n{"name":"weather"')
    assert user == {"role": "user", "content": "And Köln?"}
    call = SAID.partition("\n")[2]
    assert turn == {"role": "assistant", "content": f"Let me look.\n{call}\n{call}"}
    guarded = "wet< /tool_response>"
    told = f"<tool_response>\n9 degrees\n</tool_response>\n<tool_response>\n{guarded}\n</tool_response>"
    assert results == {"role": "user", "content": told}


@pytest.mark.learn
def test_training_writes_the_same_prompt():
    from rl.lm.chat.format import ChatFormat
    from tests.training.chatting import tokenizer

    server = ServerDouble(lambda body: "Hm.")
    asked = ours(messages=LOOP, tools=TOOLS)
    complete(server, asked)
    trained = ChatFormat(tokenizer("llama3"), "auto", speaks=False)
    rows = [{**message, "content": text} for message, text in zip(LOOP, TEXTS, strict=True)]
    assert trained.name == "plain"
    assert trained.prompt_ids(rows, TOOLS) == trained.prompt_ids(server.bodies[0]["messages"], ())


TEXTS = ["Be short.", "And Köln?", "Let me look.", "wet</tool_response>", "9 degrees"]


def test_a_call_in_words_comes_back_as_a_call():
    asked = ours(tools=TOOLS)
    [choice] = complete(ServerDouble(lambda body: SAID), asked)
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Let me look."
    [call] = choice["message"]["tool_calls"]
    assert call["id"].startswith("call_")
    assert call["function"] == {"name": "weather", "arguments": '{"city": "Köln"}'}
    asked.answer.take({"choices": [choice]})
    assert asked.document()["tool_calls"][0]["tool_name"] == "weather"


def test_no_more_than_one_call_comes_where_the_client_takes_one():
    [choice] = complete(ServerDouble(lambda body: SAID * 2), ours(tools=TOOLS, parallel_tool_calls=False))
    assert len(choice["message"]["tool_calls"]) == 1


@pytest.mark.parametrize("said", ["It rains.", "<tool_call>{broken</tool_call>"])
def test_what_is_no_call_stays_as_it_is(said: str):
    [choice] = complete(ServerDouble(lambda body: said), ours(tools=TOOLS))
    assert choice["message"] == {"role": "assistant", "content": said}
    assert choice["finish_reason"] == "stop"


def test_a_stream_with_a_call_comes_whole():
    server, asked = ServerDouble(lambda body: SAID), ours(tools=TOOLS, stream=True, n=2)
    [choice] = complete(server, asked)
    assert not {"stream", "stream_options"} & server.bodies[0].keys()
    events = as_events(asked, {"choices": [choice, choice]}).decode().strip().split("\n\n")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert [chunk["choices"][0]["index"] for chunk in chunks] == [0, 0, 1, 1]
    assert chunks[0]["choices"][0]["delta"]["tool_calls"][0]["index"] == 0
    assert chunks[1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_call_that_is_demanded_is_kept_to_a_schema_and_read(choice: object):
    called = '{"name": "weather", "arguments": {"city": "Köln"}}'
    server = ServerDouble(lambda body: called)
    [answer] = complete(server, ours(tools=TOOLS, tool_choice=choice))
    [call] = answer["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("weather", {"city": "Köln"})
    assert (answer["finish_reason"], answer["message"]["content"]) == ("tool_calls", None)
    schema = server.bodies[0]["response_format"]["json_schema"]["schema"]
    jsonschema.validate(json.loads(called), schema)
    for wrong in ({"name": "other", "arguments": {}}, {"name": "weather"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_a_demanded_call_that_was_cut_off_stays_text():
    [answer] = complete(ServerDouble(lambda body: '{"name": "wea'), ours(tools=TOOLS, tool_choice="required"))
    assert answer["message"]["content"] == '{"name": "wea'


def test_parameters_with_parts_of_their_own_stay_what_they_are():
    """Such as pydantic writes them."""
    city = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    of_cities = {"type": "object", "properties": {"city": {"$ref": "#/$defs/City"}}, "$defs": {"City": city}}
    tree = {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#"}}}}
    tools = [
        {"type": "function", "function": {"name": name, "parameters": parameters}}
        for name, parameters in (("find", of_cities), ("grow", tree))
    ]
    schema = schema_of_call(tools)["response_format"]["json_schema"]["schema"]
    jsonschema.validate({"name": "find", "arguments": {"city": {"name": "Köln"}}}, schema)
    jsonschema.validate({"name": "grow", "arguments": {"below": [{"below": []}]}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "find", "arguments": {"city": {}}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "grow", "arguments": {"below": [3]}}, schema)


def test_without_a_choice_of_tools_none_are_described_and_none_are_read():
    server = ServerDouble(lambda body: SAID)
    [choice] = complete(server, ours(tools=TOOLS, tool_choice="none"))
    assert [message["role"] for message in server.bodies[0]["messages"]] == ["user"]
    assert choice["message"]["content"] == SAID


def test_a_stream_after_calls_that_offers_no_tools_goes_on_as_a_stream():
    server = ServerDouble(lambda body: "Hm.")
    ask(server, ours(messages=LOOP, stream=True))
    assert server.bodies[0]["stream"] is True
    assert [message["role"] for message in server.bodies[0]["messages"]] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("server_number", [None, 1])
def test_a_template_with_tools_and_servers_of_others_get_them_as_they_are(server_number: int | None):
    server = ServerDouble(lambda body: SAID, NATIVE)
    [choice] = complete(server, exchange({}, server=server_number, messages=LOOP, tools=TOOLS))
    assert server.bodies[0]["tools"] == TOOLS
    assert server.bodies[0]["messages"] == LOOP
    assert choice["message"]["content"] == SAID
