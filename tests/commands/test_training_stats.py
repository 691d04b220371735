import json
import re
from functools import partial

import pytest

from tests.commands.printing import printed, refused
from tests.dataset_builder.ratings import rate_prompts

told = partial(printed, "training_stats")


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
    refused(told, "unknown agent 'nobody'", "--agent", "nobody")
