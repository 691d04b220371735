"""Jobs with right answers, from the first correction on: real llama.cpp, the real gateway, the official client.

``ANSWERS=1000 pytest tests/commands/test_closed_answers.py`` asks for as many of each kind.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import jsonschema
import pytest
from openai import InternalServerError, OpenAI

from tests.commands.site import Site, serving
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.slow]
ANSWERS = int(os.environ.get("ANSWERS", 6))
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
    served.run("shell", "--no-imports", "-c", SAYS_WHAT_IT_LIKES)
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


SAYS_WHAT_IT_LIKES = """
from rl.models import Agent
Agent.objects.filter(name="route").update(answer_values=[])
"""
SWITCH_OFF = """
from rl.models import Agent
Agent.objects.filter(name="route").update(keep_to_answers=False)
"""


# --- none of many is wrong in form --------------------------------------------------------------------------------------

LETTERS = """
import json
from rl.collect.feedback import write
from rl.models import Agent, Trace
agent = Agent.objects.get(name="letters")
for number in range(24):
    said = {"team": ("cards", "cash", "identity")[number % 3], "urgent": number % 2 == 0}
    said |= {"about": f"letter {number}", "sums": [1.5] * (number % 3)} | ({"note": None} if number % 4 else {})
    prompt = [{"role": "user", "content": f"Letter {number}"}]
    trace = Trace.objects.create(agent=agent, prompt=prompt, response="hm", source="test")
    write.correct(trace, text=json.dumps(said), rater="alice", source="test")
Agent.objects.filter(name="route").update(keep_to_answers=True, answer_values=["cards", "cash back", "cash", "identity"])
"""
SCHEMA = """
import json
from rl.collect.feedback.kept_answers import schema_for
from rl.models import Agent
print(json.dumps(schema_for(Agent.objects.get(name="letters"))))
"""


def say(client: OpenAI, model: str, number: int) -> Any:
    messages: Any = [{"role": "user", "content": f"Letter {number}: where is my card?"}]
    for attempt in range(30):
        with suppress(InternalServerError):
            return client.chat.completions.create(model=model, messages=messages, temperature=1.0, seed=attempt)
    pytest.fail("no answer came")


@pytest.mark.timeout(3600)
def test_answers_of_a_set_and_of_a_schema_are_all_well_formed(served: Site):
    """The model knows nothing: whatever keeps to the form, its server does. It breaks characters in two as well, for which
    llama.cpp gives an error and no answer, or counts the halves as one."""
    served.run("agent", "create", "letters", "--model", "tiny")
    served.json("deploy_model", "--agent", "letters", "--version", "base", "--target", "llama_cpp")
    served.run("shell", "--no-imports", "-c", LETTERS)
    schema = json.loads(served.run("shell", "--no-imports", "-c", SCHEMA).stdout)
    assert schema["required"] == ["team", "urgent", "about", "sums"]
    assert schema["properties"]["about"].pop("maxLength") == 64
    secret = served.json("api_key", "create", "--name", "many", "--kind", "secret")["key"]
    with serving(served, API_REQUESTS_PER_MINUTE="1000000", LOG_LEVEL="CRITICAL") as url:
        client = OpenAI(base_url=f"{url}/v1", api_key=secret, max_retries=0, timeout=1800)
        for number in range(ANSWERS):
            assert say(client, "route", number).choices[0].message.content in TEAMS
            said = say(client, "letters", number)
            jsonschema.validate(json.loads(said.choices[0].message.content), schema)
        (row,) = served.wait_for(f"SELECT details FROM rl_trace WHERE id = '{said.id.replace('-', '')}'")
        kept = {"form": "json_schema", "reason": "learned from 24 accepted answers"}
        assert json.loads(row)["kept"] == kept
    served.run("deploy_model", "--agent", "letters", "--stop", "--version", "base")
