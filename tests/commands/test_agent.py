import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rl.models import Agent

pytestmark = pytest.mark.django_db


def agent(*arguments: str) -> Any:
    out = StringIO()
    call_command("agent", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


@pytest.mark.learn
def test_an_agent_is_made_with_its_base_model(data_dir: Path):
    made = agent("create", "helper", "--model", "tiny", "--system-prompt", "Be brief.", "--response-length", "64")
    assert made["loaded_from"] == str(data_dir / "base_models" / "tiny")
    assert (data_dir / "base_models" / "tiny" / "config.json").is_file()
    helper = Agent.objects.get()
    assert (helper.base_model, helper.system_prompt, helper.response_length) == ("tiny", "Be brief.", 64)
    assert agent("list") == {"agents": [{"name": "helper", "base_model": "tiny", "traces": 0, "online_learning": True}]}


def test_the_default_is_that_of_the_settings_and_may_come_later(data_dir: Path, settings):
    settings.DEFAULT_BASE_MODEL = "smollm2"
    assert agent("create", "helper", "--later")["base_model"] == "smollm2"
    assert not (data_dir / "base_models").exists()


def test_a_registered_name_is_what_it_stands_for(data_dir: Path, settings):
    settings.BASE_MODELS = {"small": "owner/small"}
    assert agent("create", "helper", "--model", "small")["base_model"] == "owner/small"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "no spaces"), "name: "),
        (("create", "helper", "--model", "/nowhere"), "no base model at /nowhere"),
        (("create", "helper", "--model", "/nowhere/my.gguf"), "there is no such file"),
        (
            ("create", "helper", "--model", "smolm2"),
            r"unknown base model 'smolm2' \(did you mean smollm2\?\); known",
        ),
        (("create", "helper", "--response-length", "0"), "response_length: "),
    ],
)
def test_what_cannot_be_is_refused_and_no_agent_is_made(arguments: tuple[str, ...], words: str, data_dir: Path):
    with pytest.raises(CommandError, match=words) as refusal:
        agent(*arguments)
    assert refusal.value.returncode == 2
    assert not Agent.objects.exists()


def test_an_agent_of_that_name_is_not_made_twice(data_dir: Path):
    agent("create", "helper", "--later")
    with pytest.raises(CommandError):
        agent("create", "Helper", "--later")
