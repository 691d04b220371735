from __future__ import annotations

import json
import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tests.dataset_builder.ratings import rate_prompts


def told(*arguments: str) -> str:
    out = StringIO()
    call_command("training_stats", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_it_answers_with_one_document(agent):
    rate_prompts(agent, 3)
    stats = json.loads(told("--agent", "support-chat", "--json"))
    assert (stats["ratings"], stats["waiting"], stats["versions"]) == (6, 6, 0)


def test_it_prints_a_table(agent):
    rate_prompts(agent, 3)
    text = told("--agent", "support-chat")
    assert "waiting" in text
    assert "6" in text
    assert re.search(r"last rated at +│ [0-9-]{10} [0-9:]{5} UTC ", text)


@pytest.mark.django_db
def test_an_unknown_agent_is_exit_code_2():
    with pytest.raises(CommandError, match="unknown agent 'nobody'") as caught:
        told("--agent", "nobody")
    assert caught.value.returncode == 2
