from typing import Any

import pytest

from rl.models import Agent, QuestionStart, Trace, UserTurns
from rl.models.traces import LENGTH

pytestmark = pytest.mark.database


def said(*turns: str) -> list[dict[str, str]]:
    """``u`` and then the text: of the user; ``t``: of a tool."""
    return [{"role": {"u": "user", "t": "tool"}[turn[0]], "content": turn[1:]} for turn in turns]


@pytest.mark.parametrize(
    ("prompt", "question", "turns"),
    [
        (said("ufirst", "tresult", "ulast ü 👍", "tresult"), "last ü 👍", 2),
        (said(*[f"u{number}" for number in range(12)]), "11", 12),
        (said("u" + "x" * 3 * LENGTH), "x" * LENGTH, 1),
        (said("tresult"), None, 0),
        ([], None, 0),
        ({}, None, 0),
        ("user", None, 0),
        (["user", 1, None, {"role": "user"}], None, 1),
    ],
)
def test_the_database_finds_the_question(agent: Agent, prompt: Any, question: str | None, turns: int):
    Trace.objects.create(agent=agent, prompt=prompt, prompt_key="x")
    assert Trace.objects.values_list(QuestionStart("prompt"), UserTurns("prompt")).get() == (question, turns)
