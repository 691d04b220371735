import json

import pytest
from django.core.management import CommandError, call_command

from rl.models import Agent, Deployment

pytestmark = [pytest.mark.database, pytest.mark.django_db]


@pytest.fixture
def served(agent: Agent) -> Agent:
    Deployment.objects.create(agent=agent, target="openai", url="http://127.0.0.1:9", model_name="m")
    return agent


def test_a_version_is_made_and_served_and_used_only_when_asked(served: Agent, capsys) -> None:
    call_command("instruct", "Answer in French.", agent=served.name)
    assert "support-chat@v1" in capsys.readouterr().out
    assert Deployment.champion(served) is None
    call_command("instruct", "Answer in French.", agent=served.name, use=True)
    assert Deployment.champion(served) == served.versions.get()


def test_what_is_refused_is_told_and_makes_nothing(served: Agent) -> None:
    with pytest.raises(CommandError, match="say in a sentence"):
        call_command("instruct", " ", agent=served.name)
    assert not served.versions.exists()


def test_the_place_that_nobody_names_is_tried_on_past_questions(served: Agent, capsys) -> None:
    call_command("instruct", "Answer in French.", agent=served.name, json=True)
    tried = json.loads(capsys.readouterr().out)
    assert (tried["place"], tried["heeded, system"], tried["surely heeded"]) == ("question", "0 of 0", False)
    call_command("instruct", "Answer in French.", agent=served.name, instruction_place="system")
    assert "heeded" not in capsys.readouterr().out
    assert served.versions.first().instruction_place == "system"
