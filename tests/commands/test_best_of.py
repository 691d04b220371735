"""The best of four answers, from the command to the trace: real llama.cpp, a real judge, the real gateway."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from tests.commands.site import Site, serving

pytestmark = [pytest.mark.process, pytest.mark.slow]
AGENT = ("--agent", "support-chat")
LEARN = """
from pathlib import Path
from django.conf import settings
from rl.models import Agent
from tests.serving.judged import make_judge
make_judge(Agent.objects.get(name="support-chat"), settings.DATA_DIR / "base_models" / "tiny")
"""


@pytest.fixture(scope="module")
def served(prepared_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The base model by llama.cpp, of which four answers are asked, and a judge who likes long ones."""
    site = prepared_site.copy(tmp_path_factory.mktemp("best") / "data")
    shown = site.json("deploy_model", *AGENT, "--version", "base", "--target", "llama_cpp", "--best-of", "4")
    assert shown["model_name"] == "support-chat:base"
    yield site
    site.run("deploy_model", *AGENT, "--stop", "--version", "base")
    assert judge_number(site) is None


@pytest.fixture(scope="module")
def client(served: Site) -> Iterator[OpenAI]:
    with serving(served) as url:
        secret = served.json("api_key", "create", "--name", "app", "--kind", "secret")["key"]
        yield OpenAI(base_url=f"{url}/v1", api_key=secret, max_retries=0)


def judge_number(site: Site) -> int | None:
    """Of its process."""
    (file,) = list((site.data / "judges").glob("*.json")) or [None]
    return json.loads(Path(file).read_text())["pid"] if file else None


def ask(client: OpenAI, **options: Any) -> Any:
    messages = [{"role": "user", "content": "Where is my parcel?"}]
    return client.chat.completions.create(model="support-chat", messages=messages, **options)


def details(site: Site, trace_id: str) -> dict[str, Any]:
    (row,) = site.wait_for(f"SELECT details FROM rl_trace WHERE id = '{trace_id.replace('-', '')}'")
    return json.loads(row)


def test_the_best_of_four_answers_is_given_to_users_and_to_an_arm(served: Site, client: OpenAI):
    said = ask(client)
    assert "has no judge yet" in details(served, said.id)["best_of"]["unjudged"]
    assert "has no judge yet" in served.run("deploy_model", *AGENT, "--list").stdout
    assert any("gives the first of several" in row["text"] for row in served.json("doctor", expect=1)["checks"])

    served.run("shell", "--no-imports", "-c", LEARN)
    assert served.json("deploy_model", *AGENT, "--version", "base", "--best-of", "4")["unjudged"] == ""
    time.sleep(2.5)  # the gateway reads the table every two seconds
    said = ask(client)
    found = details(served, said.id)
    best_of = found["best_of"]
    assert (best_of["of"], best_of["answered"], len(best_of["ratings"])) == (4, 4, 4)
    assert best_of["ratings"] == sorted(best_of["ratings"], reverse=True)
    assert len(found["choices"]) == 3
    assert said.usage.completion_tokens >= 4
    chunks = list(ask(client, stream=True))
    assert chunks[-1].choices[0].finish_reason
    assert len(details(served, chunks[0].id)["best_of"]["ratings"]) == 4

    os.kill(judge_number(served) or 0, signal.SIGKILL)
    assert "does not run" in details(served, ask(client).id)["best_of"]["unjudged"]
    assert served.json("deploy_model", *AGENT, "--list")["served"][0]["unjudged"].startswith("the judge of")

    arms = ("--arms", "base@1=50,base@4=50", "--control", "base@1")
    shown = served.json("experiment", "start", *AGENT, "--name", "four", *arms)
    assert [arm["version"] for arm in shown["arms"]] == ["base@1", "base@4"]
    assert shown["warnings"] == []
    time.sleep(2.5)
    counts = {len(details(served, ask(client, user=f"u{number}").id).get("choices", [])) for number in range(8)}
    assert counts == {0, 3}
    served.run("experiment", "promote", *AGENT, "--arm", "base@1")
    assert served.query("SELECT best_of FROM rl_deployment") == [(1,)]
