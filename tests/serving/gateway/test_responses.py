"""OpenAI's Responses API, with the official client."""

import json
from typing import Any

import httpx
import openai
import pytest
from langchain_openai import ChatOpenAI
from openai.types.responses import Response

from tests.serving.gateway.conftest import Gateway
from tests.serving.gateway.upstream_double import UpstreamDouble

pytestmark = pytest.mark.process

TRACK = {"type": "function", "name": "track", "parameters": {"type": "object", "properties": {}}, "strict": False}
PATCH = {"type": "custom", "name": "track", "description": "Tracks."}


def ask(gateway: Gateway, given: Any = "hello", **options: Any) -> Response:
    return gateway.client().responses.create(model="support-chat", input=given, **options)


def trace_of(gateway: Gateway, response: Response) -> dict[str, Any]:
    return gateway.trace(response.id.removeprefix("resp_"))


def test_a_response_is_a_trace_under_its_id(gateway: Gateway, upstream: UpstreamDouble):
    response = ask(gateway, instructions="Be brief.", max_output_tokens=9, temperature=0.5, metadata={"shop": "north"})
    assert response.output_text == "support-chat-v2 says hello 0"
    assert (response.model, response.status, response.instructions) == ("support-chat@v2", "completed", "Be brief.")
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (7, 5, 12)
    assert upstream.last["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
    ]
    assert (upstream.last["max_tokens"], upstream.last["temperature"]) == (9, 0.5)
    trace = trace_of(gateway, response)
    assert trace["response"] == response.output_text
    assert trace["prompt"] == upstream.last["messages"]
    assert trace["details"]["dialect"] == {"name": "responses", "instructions": True}


@pytest.mark.parametrize("streams", [False, True])
def test_langchain_asks_for_responses_and_has_their_ids(gateway: Gateway, streams: bool):
    address, key = f"{gateway.url}/v1", gateway.keys["all"]
    chat = ChatOpenAI(model="support-chat", base_url=address, api_key=key, use_responses_api=True, streaming=streams)
    answer = chat.invoke("hello")
    trace = gateway.trace(answer.response_metadata["id"].removeprefix("resp_"))
    assert trace["response"] == answer.text


def test_a_response_is_rated_by_the_id_that_the_client_has(gateway: Gateway):
    response = ask(gateway)
    answer = httpx.post(
        f"{gateway.url}/api/v1/feedback/",
        json={"trace": response.id, "rater": "anna", "scale": "thumb", "value": 1},
        headers={"Authorization": f"Bearer {gateway.keys['all']}"},
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["trace"] == trace_of(gateway, response)["external_id"]


def test_a_stream_tells_each_item_from_its_beginning_to_its_end(gateway: Gateway):
    with gateway.client().responses.stream(model="support-chat", input="hello") as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert list(dict.fromkeys(event.type for event in events)) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_text.delta",
        "response.output_text.done",
        "response.completed",
    ]
    assert [item.type for item in final.output] == ["reasoning", "message"]
    assert final.output_text == "support-chat-v2 says hello\u2028\x85."
    assert final.usage.total_tokens == 12
    trace = trace_of(gateway, final)
    assert trace["response"] == final.output_text
    assert [step["content"] for step in trace["reasoning_steps"]] == ["hm"]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("tool", [TRACK, PATCH], ids=["function", "custom"])
def test_a_tool_is_called_and_its_result_goes_on_with_the_run(
    gateway: Gateway, upstream: UpstreamDouble, streams: bool, tool: dict[str, Any]
):
    """With the text that a custom tool is given, or the arguments of a function."""
    client = gateway.client()
    if streams:
        with client.responses.stream(model="support-chat", input="call a tool", tools=[tool]) as stream:
            first = stream.until_done().get_final_response()
    else:
        first = ask(gateway, "call a tool", tools=[tool])
    (call,) = first.output
    given = call.arguments if tool is TRACK else call.input
    assert (call.name, call.call_id, given) == ("track", "call_1", '{"number": "4711"}')
    kind = "function_call_output" if tool is TRACK else "custom_tool_call_output"
    result = {"type": kind, "call_id": call.call_id, "output": "it left"}
    again = ask(gateway, [result], previous_response_id=first.id, tools=[tool])
    assert [message["role"] for message in upstream.last["messages"][-3:]] == ["user", "assistant", "tool"]
    trace = trace_of(gateway, again)
    assert trace["llm_calls"] == 2
    assert [(step["tool_name"], step["result"]) for step in trace["tool_calls"]] == [("track", "it left")]
    # the first answer is a part of the run now: it can be read and gone on from as it was, and stays
    with pytest.raises(openai.ConflictError, match="its run went on"):
        client.responses.delete(first.id)
    assert [item.type for item in client.responses.retrieve(first.id).output] == [call.type]
    ask(gateway, [{**result, "output": "it is here"}], previous_response_id=first.id, tools=[tool])
    assert upstream.last["messages"][-1]["content"] == "it is here"


def test_a_response_goes_on_from_an_earlier_one_without_its_instructions(gateway: Gateway, upstream: UpstreamDouble):
    first = ask(gateway, "I am Anna.", instructions="Be brief.")
    second = ask(gateway, "Who am I?", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert [message["content"] for message in upstream.last["messages"][1:]] == [
        "I am Anna.",
        first.output_text,
        "Who am I?",
    ]
    assert upstream.last["messages"][0] == {"role": "system", "content": "Be kind."}  # the agent's own


@pytest.mark.parametrize("name", ["", "Anna's, today", "2960873e-6280-49c7-af78-33e8429bb9aa", "resp_" + 32 * "a"])
def test_a_conversation_goes_on_by_its_name(gateway: Gateway, upstream: UpstreamDouble, name: str):
    """Whatever it looks like, and whatever session a header names; an answer that is not to be stored is passed over."""
    name = name or gateway.client().conversations.create().id
    first = ask(gateway, "I am Anna.", conversation=name)
    ask(gateway, "Keep this to yourself.", conversation=name, store=False)
    second = ask(gateway, "Who am I?", conversation={"id": name}, extra_headers={"X-Ratchet-Session": "another"})
    assert second.conversation.id == name
    assert [message["content"] for message in upstream.last["messages"][-3:]] == [
        "I am Anna.",
        first.output_text,
        "Who am I?",
    ]
    assert trace_of(gateway, second)["session_id"] == name


def test_a_conversation_that_would_begin_with_items_is_refused(gateway: Gateway):
    with pytest.raises(openai.BadRequestError, match="begins with its first response"):
        gateway.client().conversations.create(items=[{"role": "user", "content": "I am Anna."}])


def test_a_response_that_broke_off_is_read_as_failed(gateway: Gateway):
    stream = gateway.client().responses.create(model="support-chat", input="break off", stream=True)
    last = list(stream)[-1].response
    read = gateway.client().responses.retrieve(last.id)
    assert (read.status, read.output_text) == ("failed", last.output_text)
    assert "out of memory" in read.error.message
    with pytest.raises(openai.BadRequestError, match="read whole"):
        gateway.client().responses.retrieve(last.id, stream=True)


def test_items_of_an_earlier_response_can_be_named(gateway: Gateway, upstream: UpstreamDouble):
    """As Vercel's SDK does by default."""
    first = ask(gateway)
    named = [{"type": "item_reference", "id": first.output[0].id}, {"role": "user", "content": "Again."}]
    ask(gateway, [{"role": "user", "content": "hello"}, *named])
    assert upstream.last["messages"][-2] == {"role": "assistant", "content": first.output_text}
    with pytest.raises(openai.BadRequestError, match=r"input\[0\]\.id: there is no such item"):
        ask(gateway, [{"type": "item_reference", "id": "msg_" + 32 * "0"}])


def test_a_stored_response_is_read_listed_and_deleted(gateway: Gateway):
    client = gateway.client()
    response = ask(gateway, "hello", instructions="Be brief.", tools=[TRACK], temperature=0.5)
    read = client.responses.retrieve(response.id)
    unlike = {name for name, value in response.to_dict().items() if read.to_dict().get(name) != value}
    assert unlike == set()
    items = client.responses.input_items.list(response.id, order="asc")
    assert [(item.role, item.content[0].text) for item in items] == [("user", "hello")]
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_a_response_that_somebody_rated_is_not_deleted(gateway: Gateway):
    response = ask(gateway)
    rating = {"trace": response.id, "rater": "anna", "scale": "thumb", "value": 1}
    key = {"Authorization": f"Bearer {gateway.keys['all']}"}
    httpx.post(f"{gateway.url}/api/v1/feedback/", json=rating, headers=key).raise_for_status()
    with pytest.raises(openai.ConflictError, match="was rated"):
        gateway.client().responses.delete(response.id)


def test_what_was_not_to_be_stored_or_is_of_another_agent_is_not_here(gateway: Gateway):
    hidden, other = ask(gateway, store=False), ask(gateway)
    client = gateway.client()
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(hidden.id)
    with pytest.raises(openai.NotFoundError):
        gateway.client("split").responses.retrieve(other.id)
    with pytest.raises(openai.BadRequestError) as refused:
        ask(gateway, "on", previous_response_id=hidden.id)
    assert refused.value.code == "previous_response_not_found"


def test_a_program_sends_more_than_can_be_passed_on(gateway: Gateway, upstream: UpstreamDouble):
    """In the form in which Codex asks: parts of texts, tools that OpenAI runs, thoughts that only it can read."""
    tools = [TRACK, {"type": "web_search"}, {"type": "namespace", "name": "more", "tools": []}]
    thoughts = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    developer = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be terse."}]}
    raw = gateway.client().responses.with_raw_response.create(
        model="support-chat",
        instructions="You are a coding agent.",
        input=[developer, thoughts, {"type": "message", "role": "user", "content": "hello"}],
        tools=tools,
        tool_choice="auto",
        parallel_tool_calls=True,
        reasoning={"effort": "low"},
        store=False,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="k",
    )
    assert raw.parse().output_text
    left = raw.headers["x-ratchet-left-out"].split(", ")
    assert left == ["include.reasoning.encrypted_content", "input.reasoning", "tools.namespace", "tools.web_search"]
    assert [tool["function"]["name"] for tool in upstream.last["tools"]] == ["track"]
    assert [message["role"] for message in upstream.last["messages"]] == ["system", "developer", "user"]


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"background": True}, "background"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"input": 3}, "input"),
        ({"input": [{"type": "computer_call"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input[0].content[0].type"),
        ({"previous_response_id": "resp_1", "conversation": "c"}, "previous_response_id"),
        ({"tools": [3]}, "tools[0]"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
        ({"input": []}, "input"),
        ({"instructions": "a", "input": ["b", {"role": "nobody", "content": "c"}]}, "input[0]"),
        ({"instructions": "a", "input": [{"type": "reasoning"}, {"role": "nobody", "content": "c"}]}, "input[1].role"),
        ({"tools": [{"type": "web_search"}, {"type": "function", "name": ""}]}, "tools[1].name"),
        ({"tools": {}}, "tools"),
        ({"text": []}, "text"),
        ({"instructions": 0}, "instructions"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_the_field(gateway: Gateway, options: dict[str, Any], param: str):
    body = {"model": "support-chat", "input": "hello", **options}
    key = {"Authorization": f"Bearer {gateway.keys['all']}"}
    answer = httpx.post(f"{gateway.url}/v1/responses", json=body, headers=key)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == param
    assert error["message"].startswith((param, param.rpartition(".")[0])), "the message has the client's names, too"


@pytest.mark.parametrize("question", ["break off", "end early", "fall silent"])
def test_a_stream_that_breaks_ends_with_a_failed_response(gateway: Gateway, question: str):
    stream = gateway.client().responses.create(model="support-chat", input=question, stream=True)
    last = list(stream)[-1]
    assert (last.type, last.response.status, last.response.error.code) == ("response.failed", "failed", "server_error")
    assert not trace_of(gateway, last.response)["details"]["complete"]


def test_the_whole_answer_of_the_best_of_several_comes_as_a_stream_too(gateway: Gateway):
    """Of an agent that nobody judges the first one."""
    stream = gateway.client().responses.create(model="unjudged", input="hello", stream=True)
    events = list(stream)
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text.startswith("unjudged-v1 says hello")


def test_addresses_may_end_with_a_slash_and_unknown_ones_are_told_in_json(gateway: Gateway):
    key = {"Authorization": f"Bearer {gateway.keys['all']}"}
    body = {"model": "support-chat", "input": "hello"}
    assert httpx.post(f"{gateway.url}/v1/responses/", json=body, headers=key).status_code == 200
    for path in ("/v1", "/v1/images", "/v1/responses/a/b", "/v1/metrics"):
        answer = httpx.post(f"{gateway.url}{path}", json=body, headers=key)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert "/v1/responses" in json.dumps(answer.json())
