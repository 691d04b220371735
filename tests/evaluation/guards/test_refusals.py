from __future__ import annotations

import pytest

from rl.evaluation.guards.answer_errors import REFUSALS, is_refusal


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry. I cannot do this.",
        "Sorry, I won't.",
        "  **Unfortunately, I am unable to** see your order.",
        "As an AI language model, I have no orders.",
        "I apologize, but I'm not able to do so.",
    ],
)
def test_a_refusal_is_told_by_its_first_words(answer):
    assert is_refusal(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "We are very sorry to hear that.",
        "I'm sorry about the delay. Open Orders and choose Track.",
        "Open Billing. I can't see more than that.",
        "I canned the tomatoes.",
        "Es tut mir leid, das kann ich nicht.",
    ],
)
def test_regret_and_a_late_cannot_are_no_refusals(answer):
    assert not is_refusal(answer)


def test_every_opening_in_the_list_is_recognised():
    assert all(is_refusal(f"{opening.capitalize()} x") for opening in REFUSALS)
