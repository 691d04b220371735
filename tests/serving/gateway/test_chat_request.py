from dataclasses import replace
from typing import Any

import pytest

from rl.base.manner import Manner
from rl.base.messages import requested_calls, without_calls
from rl.base.template_settings import template_settings
from rl.serving.dialects.dialect import ChatForm
from rl.serving.gateway.chat_request import parse_request
from rl.serving.gateway.refusals import Refusal
from tests.serving.gateway.test_forms import ServerDouble, complete, exchange
from tests.serving.gateway.test_routing import ANY, agent, ask, served

SETTINGS = template_settings(False)


def sent(server: int | None, thinks: bool = False, kept: dict[str, Any] | None = None, **more: object) -> dict:
    """What an upstream gets. ``server``: the number of a llama.cpp process of ours; ``kept``: what the answers keep to."""
    route = ask(replace(agent(served(1, "champion")), **(kept or {})))
    assert route.served.upstream is not None
    upstream = replace(route.served.upstream, server=server)
    route = replace(route, served=replace(route.served, upstream=upstream, manner=Manner(thinks)))
    document = {"model": "chat", "messages": [{"role": "user", "content": "Where?"}], **more}
    return parse_request(ChatForm(document), {}, ANY).for_upstream(route)


def test_a_server_of_ours_is_asked_as_versions_are_trained():
    assert sent(7)["chat_template_kwargs"] == SETTINGS


def test_what_the_client_says_about_thoughts_wins():
    asked = sent(7, chat_template_kwargs={"enable_thinking": True, "more": "1"})["chat_template_kwargs"]
    assert asked == {**SETTINGS, "enable_thinking": True, "more": "1"}


def test_a_version_that_was_trained_with_thoughts_is_asked_for_them_unless_the_client_says_otherwise():
    thinking = template_settings(True)
    assert sent(7, thinks=True)["chat_template_kwargs"] == thinking
    asked = sent(7, thinks=True, chat_template_kwargs={"enable_thinking": False})["chat_template_kwargs"]
    assert asked == {**thinking, "enable_thinking": False}
    assert "chat_template_kwargs" not in sent(None, thinks=True)


@pytest.mark.parametrize("kept", ["closed", "structure"])
def test_answers_that_keep_to_a_form_come_without_thoughts(kept: str):
    assert sent(7, thinks=True, kept={kept: object()})["chat_template_kwargs"] == SETTINGS


def test_a_function_that_is_chosen_is_the_only_one_and_demanded_of_a_server_of_ours_which_reads_no_names():
    tools = [{"type": "function", "function": {"name": name}} for name in ("weather", "trains")]
    choice = {"type": "function", "function": {"name": "trains"}}
    ours, others = (sent(server, tools=tools, tool_choice=choice) for server in (7, None))
    assert (ours["tools"], ours["tool_choice"]) == (tools[1:], "required")
    assert (others["tools"], others["tool_choice"]) == (tools, choice)
    assert sent(7, tools=tools, tool_choice="required")["tools"] == tools


def test_a_server_of_ours_is_told_of_no_tools_where_none_may_be_called():
    tools = [{"type": "function", "function": {"name": "weather"}}]
    ours, others = (sent(server, tools=tools, tool_choice="none") for server in (7, None))
    assert (ours["tools"], ours["tool_choice"]) == (None, None)
    assert (others["tools"], others["tool_choice"]) == (tools, "none")


@pytest.mark.parametrize("more", [{}, {"chat_template_kwargs": {"enable_thinking": True}}])
def test_a_server_of_others_gets_what_the_client_sent(more: dict):
    assert sent(None, **more).get("chat_template_kwargs") == more.get("chat_template_kwargs")


PICTURE = [
    {"type": "text", "text": "What is it?"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
]
SEEN = [{"role": "user", "content": "Hi"}, {"role": "user", "content": PICTURE}]
BLIND = "image input is not supported - hint: you may need to provide the mmproj"


def test_a_server_of_ours_reads_texts_alone():
    with pytest.raises(Refusal, match="reads texts alone") as raised:
        sent(7, messages=SEEN)
    problem = raised.value
    assert (problem.status, problem.code, problem.param) == (400, "unsupported_content", "messages[1].content[1]")
    assert not problem.blames_version
    assert sent(7, messages=[{"role": "user", "content": PICTURE[:1]}])["messages"][0]["content"] == PICTURE[:1]
    assert sent(None, messages=SEEN)["messages"] == SEEN


@pytest.mark.parametrize("status", [400, 404, 415, 422, 500, 503])
def test_a_picture_that_another_server_cannot_take_is_no_fault_of_its_version(status: int):
    server = ServerDouble(lambda body: (status, {"error": {"message": BLIND}}))
    with pytest.raises(Refusal, match="mmproj") as raised:
        complete(server, exchange({}, messages=SEEN))
    problem = raised.value
    assert (problem.status, problem.code, problem.blames_version) == (400, "unsupported_content", False)
    with pytest.raises(Refusal) as raised:
        complete(server, exchange({}))
    assert raised.value.blames_version is (status not in (400, 415, 422))


@pytest.mark.parametrize(("status", "code"), [(501, "unsupported_content"), (403, None), (429, None)])
def test_a_server_without_pictures_may_say_no_more_than_that_it_has_none(status: int, code: str | None):
    words = "" if status == 501 else "no image today"
    with pytest.raises(Refusal) as raised:
        complete(ServerDouble(lambda body: (status, {"error": {"message": words}})), exchange({}, messages=SEEN))
    assert (raised.value.code, raised.value.blames_version) == (code, False)


ASKED = {"role": "user", "content": "Where is 4711?"}
NUMBER = '{"number": "4711"}'
OLD_CALL = {"role": "assistant", "content": None, "function_call": {"name": "track", "arguments": NUMBER}}
OLD_RESULT = {"role": "function", "name": "track", "content": "in Bonn"}
CUSTOM = {"id": "c7", "type": "custom", "custom": {"name": "sql", "input": '{"a": 1}'}}
NEW = {"id": "c8", "type": "function", "function": {"name": "track", "arguments": NUMBER}}


def called(name: str, arguments: str, call_id: str) -> dict:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("server", [None, 7])
def test_calls_in_older_forms_reach_servers_in_the_newest(server: int | None):
    turns = [OLD_CALL, OLD_RESULT, {**OLD_CALL, "tool_calls": None}, OLD_RESULT]
    both = {"role": "assistant", "content": "Hm.", "function_call": NEW["function"], "tool_calls": [NEW, CUSTOM]}
    results = [{"role": "tool", "tool_call_id": "c8", "content": "1"}, {**OLD_RESULT, "name": "lost"}]
    asked, *told, turn, first, second = sent(server, messages=[ASKED, *turns, both, *results])["messages"]
    assert asked == ASKED
    calls = [called("track", NUMBER, call_id) for call_id in ("call00100", "call00300")]
    for call, message, result in zip(calls, told[::2], told[1::2], strict=True):
        assert message == {"role": "assistant", "content": None, "tool_calls": [call]}
        assert result == {"role": "tool", "name": "track", "content": "in Bonn", "tool_call_id": call["id"]}
    assert turn == {
        "role": "assistant",
        "content": "Hm.",
        "tool_calls": [NEW, called("sql", '{"input": "{\\"a\\": 1}"}', "c7")],
    }
    assert (first["role"], second["role"], second["tool_call_id"]) == ("tool", "tool", "c8")


def test_a_result_without_its_call_has_an_id_too():
    assert sent(None, messages=[ASKED, OLD_RESULT])["messages"][1]["tool_call_id"] == "call00100"


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "assistant", "content": "", "tool_calls": [NEW]},
        {"role": "assistant", "content": "", "tool_calls": [{**NEW, "id": None}], "function_call": None},
        {"role": "assistant", "content": "", "tool_calls": ["odd"]},
        {"role": "assistant", "content": "", "tool_calls": "odd"},
        {"role": "assistant", "content": "", "function_call": "odd"},
        {"role": "assistant", "content": "", "function_call": {"arguments": "{}"}},
    ],
)
def test_what_is_in_the_newest_form_or_in_none_stays_as_it_is(turn: dict):
    assert sent(None, messages=[ASKED, turn])["messages"][1] == turn


@pytest.mark.parametrize(
    ("turn", "name", "arguments"),
    [
        (OLD_CALL, "track", {"number": "4711"}),
        ({"role": "assistant", "content": "Hm.", "tool_calls": [CUSTOM]}, "sql", {"input": '{"a": 1}'}),
        (
            {"role": "assistant", "content": "", "tool_calls": [{**CUSTOM, "function": None}]},
            "sql",
            {"input": '{"a": 1}'},
        ),
        ({"role": "assistant", "content": "", "tool_calls": [NEW], "function_call": None}, "track", {"number": "4711"}),
    ],
)
def test_calls_in_every_form_are_data_beside_their_words(turn: dict, name: str, arguments: dict):
    body = {"model": "chat", "messages": [ASKED, turn, OLD_RESULT]}
    request = parse_request(ChatForm(body), {}, ANY)
    _, asked, result = request.messages
    [call] = requested_calls(asked)
    assert (call.name, call.arguments) == (name, arguments)
    assert without_calls(asked) == (turn["content"] or "")
    assert (result["role"], result["content"]) == ("tool", "in Bonn")
