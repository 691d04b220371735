from __future__ import annotations

import pytest

from rl.data_formatter.listed_answers import listed_answers

TEAMS = "Which team should answer this message: cards, transfers, cash or identity? Answer with its name.\n\nMessage: "


@pytest.mark.parametrize(
    ("prompt", "accepted", "listed"),
    [
        (TEAMS + "I lost it", "Cash.", ("cards", "transfers", "cash", "identity")),
        ("Is this positive, negative or neutral?\n\nI like cats", "neutral", ("positive", "negative", "neutral")),
        ("Classify.\n- spam\n- not spam\n- unsure\n\nText: spam, spam, eggs", "unsure", ("spam", "not spam", "unsure")),
        ("Reply with one of [billing, sales, support].\nred, green and blue", "sales", ("billing", "sales", "support")),
        ("Choose: refund_request | cancel | other", "other", ("refund_request", "cancel", "other")),
        ("Labels: A/B/C\nx", "B", ("A", "B", "C")),
        ("Antworte nur mit einem von: hoch, mittel oder niedrig.", "mittel", ("hoch", "mittel", "niedrig")),
    ],
)
def test_a_list_is_found_by_one_of_its_answers(prompt: str, accepted: str, listed: tuple[str, ...]):
    assert listed_answers(prompt, accepted) == listed


@pytest.mark.parametrize("filling", [" ", "\t", "\n", "a ", "a,", "- a\n", " or", "?"])
def test_a_long_prompt_is_read_in_one_go(filling: str):
    """What is slow hangs until the test runner ends it."""
    long = filling * 500_000
    assert listed_answers(f"{TEAMS}\n\n{long}", "cash") == ("cards", "transfers", "cash", "identity")
    assert listed_answers(long, "cash") == ()


@pytest.mark.parametrize(
    ("prompt", "accepted"),
    [
        ("What is the capital of France?", "Paris"),
        (TEAMS, "Please ask the team for cards."),
        (
            "Tom, who is tall and lives in a house by the sea, met Ann, and they had tea and a long talk about it.",
            "Ann",
        ),
        ("cards, cash", "cash"),
        ("", "cash"),
    ],
)
def test_what_is_no_list_or_does_not_have_the_answer_is_none(prompt: str, accepted: str):
    assert listed_answers(prompt, accepted) == ()
