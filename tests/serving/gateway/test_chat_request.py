from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from rl.base.template_settings import template_settings
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
    route = replace(route, served=replace(route.served, upstream=upstream, thinks=thinks))
    document = {"model": "chat", "messages": [{"role": "user", "content": "Where?"}], **more}
    return parse_request(json.dumps(document).encode(), {}, ANY).for_upstream(route)


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


@pytest.mark.parametrize("status", [404, 500, 503])
def test_a_picture_that_another_server_cannot_take_is_no_fault_of_its_version(status: int):
    server = ServerDouble(lambda body: (status, {"error": {"message": BLIND}}))
    with pytest.raises(Refusal, match="mmproj") as raised:
        complete(server, exchange({}, messages=SEEN))
    problem = raised.value
    assert (problem.status, problem.code, problem.blames_version) == (400, "unsupported_content", False)
    with pytest.raises(Refusal) as raised:
        complete(server, exchange({}))
    assert raised.value.blames_version
