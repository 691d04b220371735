import json
from functools import partial

import pytest

from rl.models import Agent, Trace
from tests.commands.printing import printed, refused

run = partial(printed, "prompt_template")


@pytest.mark.django_db
def test_it_lists_templates_with_who_has_them():
    Agent.objects.create(name="panel", prompt_template="command_center")
    templates = {row["name"]: row for row in json.loads(run("list", "--json"))["templates"]}
    assert templates["command_center"]["prompt"] == ["panel"]
    assert templates["plain"]["answer"] == []


@pytest.mark.database
@pytest.mark.django_db
def test_it_takes_one_and_gives_it_to_the_agent(settings, tmp_path):
    settings.PROMPT_TEMPLATES_DIR = tmp_path
    agent = Agent.objects.create(name="panel", pair_type="both")
    prompt = [{"role": "user", "content": "Question: Why?"}]
    Trace.objects.create(agent=agent, source="gateway", prompt=prompt, prompt_key="k", response="x")
    text = run("take", "--name", "ours", "--question", "Why?", "--use")
    assert "blanks: question" in text
    agent.refresh_from_db()
    assert agent.prompt_template == "ours"
    files = {row["name"]: row["file"] for row in json.loads(run("list", "--json"))["templates"]}
    assert files["ours"] == str(tmp_path / "ours.yaml")
    refused(run, "already", "take", "--name", "ours", "--question", "Why?")
