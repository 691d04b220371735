"""A job with right answers, from the first correction on: real llama.cpp, the real gateway, the official client."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import OpenAI

from tests.commands.site import Site, serving
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.slow]
AGENT = ("--agent", "route")
TEAMS = ("cards", "cash back", "cash", "identity")
TASK = f"Which team should answer: {', '.join(TEAMS)}? Name it.\n\nMessage: "


@pytest.fixture(scope="module")
def served(prepared_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = prepared_site.copy(tmp_path_factory.mktemp("closed") / "data")
    site.run("agent", "create", "route", "--model", "tiny")
    site.json("deploy_model", *AGENT, "--version", "base", "--target", "llama_cpp")
    yield site
    site.run("deploy_model", *AGENT, "--stop", "--version", "base")


def ask(client: OpenAI, message: str, **options: Any) -> Any:
    messages = [{"role": "user", "content": TASK + message}]
    return client.chat.completions.create(model="route", messages=messages, max_tokens=12, **options)


def test_the_first_correction_changes_the_next_like_answer(served: Site):
    with serving(served) as url:
        secret = served.json("api_key", "create", "--name", "app", "--kind", "secret")["key"]
        client = OpenAI(base_url=f"{url}/v1", api_key=secret, max_retries=0)
        first = ask(client, "I lost my card. What can I do?")
        assert first.choices[0].message.content not in TEAMS
        correction = {"kind": "correction", "trace": first.id, "text": "cards", "rater": "alice"}
        post = {"json": correction, "headers": {"Authorization": f"Bearer {secret}"}, "timeout": 60}
        assert until(lambda: httpx.post(f"{url}/api/v1/feedback/", **post).status_code in (200, 201), 60)

        def answer() -> str:
            return str(ask(client, "I lost my card, what now?").choices[0].message.content)

        until(lambda: answer() == "cards", 60, every=0.2)
        said = ask(client, "My money is gone", logprobs=True, top_logprobs=3)
        assert said.choices[0].message.content in TEAMS
        (only,) = said.choices[0].logprobs.content
        assert {entry.token for entry in only.top_logprobs} == set(TEAMS)
        streamed = [chunk.choices[0].delta.content or "" for chunk in ask(client, "Who am I?", stream=True)]
        assert "".join(streamed) in TEAMS
        (row,) = served.wait_for(f"SELECT details FROM rl_trace WHERE id = '{said.id.replace('-', '')}'")
        chosen = json.loads(row)["chosen"]
        assert (chosen["among"], chosen["remembered"]) == (4, 1)
        assert sum(chosen["shares"].values()) == pytest.approx(1, abs=0.01)

        served.run("shell", "--no-imports", "-c", SWITCH_OFF)
        time.sleep(2)
        assert ask(client, "I lost my card, what now?").choices[0].message.content not in TEAMS


SWITCH_OFF = """
from rl.models import Agent
Agent.objects.filter(name="route").update(keep_to_answers=False)
"""
