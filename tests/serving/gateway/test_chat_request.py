from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rl.base.template_settings import template_settings
from rl.serving.gateway.chat_request import parse_request
from tests.serving.gateway.test_routing import ANY, agent, ask, served

SETTINGS = template_settings()


def sent(server: int | None, **more: object) -> dict:
    """What an upstream gets. ``server``: the number of a llama.cpp process of ours."""
    route = ask(agent(served(1, "champion")))
    assert route.served.upstream is not None
    route = replace(route, served=replace(route.served, upstream=replace(route.served.upstream, server=server)))
    document = {"model": "chat", "messages": [{"role": "user", "content": "Where?"}], **more}
    return parse_request(json.dumps(document).encode(), {}, ANY).for_upstream(route)


def test_a_server_of_ours_is_asked_as_versions_are_trained():
    assert sent(7)["chat_template_kwargs"] == SETTINGS


def test_what_the_client_says_about_thoughts_wins():
    asked = sent(7, chat_template_kwargs={"enable_thinking": True, "more": "1"})["chat_template_kwargs"]
    assert asked == {**SETTINGS, "enable_thinking": True, "more": "1"}


@pytest.mark.parametrize("more", [{}, {"chat_template_kwargs": {"enable_thinking": True}}])
def test_a_server_of_others_gets_what_the_client_sent(more: dict):
    assert sent(None, **more).get("chat_template_kwargs") == more.get("chat_template_kwargs")
