from __future__ import annotations

import pytest

from rl.lm.sentences import cut_short, cut_whole

LONG = "Water the roots in the early morning, so that the leaves stay dry and the soil can take it in long before noon."


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("Boil it. Then wait for ten", "Boil it."),
        ("Boil it. Is it soft? Then it is done!", "Boil it. Is it soft? Then it is done!"),
        ("  Boil it for 3.5 minutes, or", "Boil it for 3.5 minutes, or"),
        ("Add 3.5 grams. Stir", "Add 3.5 grams."),
        ("", ""),
    ],
)
def test_an_answer_ends_with_its_last_whole_sentence_if_it_has_one(text: str, cut: str):
    assert cut_whole(text) == cut


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("Boil it. Wait. Serve it.", "Boil it. Wait."),
        ("Boil it.\n\nWait for ten", "Boil it."),
        (f"{LONG} Then rest.", LONG),
        (f"Rest. {LONG} Then rest.", f"Rest. {LONG}"),
        ("Boil it for", ""),
        ("", ""),
    ],
)
def test_a_short_answer_has_two_whole_sentences_or_one_long_one(text: str, cut: str):
    assert cut_short(text) == cut
