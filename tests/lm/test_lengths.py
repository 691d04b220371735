import pytest

from rl.base.errors import NotEnoughData, UsageError
from rl.base.records import silent
from rl.lm.lengths import EncodedRow, LengthCount, TokenLimits, cut_whole
from tests.training.conftest import Listener


def row_of(prompt: int, chosen: int, rejected: int) -> EncodedRow:
    return {"prompt_ids": [1] * prompt, "chosen_ids": [2] * chosen, "rejected_ids": [3] * rejected}


def test_long_answers_are_cut_and_long_prompts_left_out():
    lengths = LengthCount()
    assert lengths.fit(row_of(4, 3, 6), 10) == row_of(4, 3, 6)
    assert lengths.fit(row_of(4, 3, 7), 10) == row_of(4, 3, 6)
    assert lengths.fit(row_of(9, 5, 5), 10) == row_of(9, 1, 1)
    assert lengths.fit(row_of(10, 1, 1), 10) is None
    assert lengths == LengthCount(rows=4, dropped=1, cut=2, longest_prompt=10, longest_row=14)


def counts_of(rows: int, dropped: int, longest: int) -> LengthCount:
    return LengthCount(rows=rows, dropped=dropped, longest_prompt=longest, longest_row=longest + 5)


def test_up_to_a_fifth_of_the_prompts_may_be_left_out():
    listener = Listener()
    counts_of(10, 2, 300).check(TokenLimits(128, 2048), listener)
    assert listener.log == "2 of 10 prompts fill max_length 128 alone (the longest has 300 tokens); they are left out"
    counts_of(10, 0, 100).check(TokenLimits(128, 2048), lambda *event: pytest.fail(str(event)))


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (
            TokenLimits(128, 2048),
            "3 of 10 prompts fill max_length 128 alone (the longest has 300 tokens); with max_length 320",
        ),
        (TokenLimits(128, 310), "with max_length 310 every row would fit"),
        (
            TokenLimits(128, 256),
            "the base model reads 256 tokens: raise max_length up to that and shorten or delete the longest",
        ),
        (TokenLimits(512, 256), "3 of 10 prompts fill alone the 256 tokens that the base model reads"),
        (TokenLimits(512, 256), "shorten or delete the longest prompts, or choose a base model that reads more"),
        (
            TokenLimits(128, 2048, 28),
            "3 of 10 prompts have more than 100 tokens, and leave no room for an answer of 28",
        ),
        (TokenLimits(128, 2048, 100), "with max_length 448 every row would fit"),
    ],
)
def test_more_are_refused_with_what_would_help(limits: TokenLimits, sentence: str):
    with pytest.raises(NotEnoughData) as refusal:
        counts_of(10, 3, 300).check(limits, silent)
    assert sentence in str(refusal.value)


def test_what_was_estimated_is_said_to_be():
    with pytest.raises(NotEnoughData, match="the longest has about 300 tokens.*with max_length about 320"):
        counts_of(10, 3, 300).check(TokenLimits(128, 2048), silent, "about ")


def test_an_answer_that_leaves_no_room_for_a_prompt_is_a_wrong_setting():
    with pytest.raises(UsageError, match="max_new_tokens 64 leaves no room for a prompt in max_length 64"):
        TokenLimits(512, 64, 64)


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
