"""Notes that say the same are one, the commonest first."""

import pytest

from rl.web.notes import group_notes


@pytest.mark.parametrize(
    "other", ["Way too long!", "shorter please", "much too wordy", "Please keep it brief", "viel zu lang"]
)
def test_notes_that_say_the_same_are_one(other: str) -> None:
    assert group_notes(["Too long", other]) == [("Too long", 2)]


@pytest.mark.parametrize(
    "other", ["not long enough", "more detail please", "no lists", "wrong price", "Too long for a phone call"]
)
def test_notes_that_say_something_else_are_not(other: str) -> None:
    assert group_notes(["Too long", other]) == [("Too long", 1), (other, 1)]


def test_the_commonest_comes_first_in_its_commonest_words() -> None:
    notes = ["No lists", "shorter", "too long", "Too formal.", "too long"]
    assert group_notes(notes) == [("too long", 3), ("No lists", 1), ("Too formal.", 1)]


def test_notes_without_words_are_one() -> None:
    assert group_notes(["?", "…", "way too much"]) == [("?", 2), ("way too much", 1)]
