import pytest

from rl.evaluation.guards.rails import most_overused, own_words


def test_what_is_furthest_above_the_usual_is_told_and_not_what_is_said_most():
    new = ["We close at five. Buy a kite today now.", "We close at six. Buy a kite today now.", "We close at five."]
    assert most_overused(new, [new[2:]], by_words=False) == (2 / 3, 0.0, "Buy a kite today now.")


def test_four_words_in_a_row_are_found_in_the_middle_of_sentences_where_asked():
    new = ["Well, my dear friend, it rains.", "No, my dear friend, it snows."]
    assert most_overused(new, [], by_words=True) == (1.0, 0.0, "my dear friend it")
    assert most_overused(new, [], by_words=False)[0] == 0.5
    assert most_overused(new, [["So my dear friend it is."], []], by_words=True)[:2] == (0.5, 0.0)


def test_nothing_is_said_by_nobody():
    assert most_overused(["", " \n"], [], by_words=True) == (0.0, 0.0, "")


@pytest.mark.parametrize(
    ("texts", "questions", "words"),
    [
        (["Elbe and Rhine", "Oder and Rhine"], [], [1, 1]),
        (["Elbe and Rhine", "Oder and Rhine"], ["The ODER?"], [1, 0]),
        (["易北河", "奥得河"], [], [2, 2]),
        (["", "Elbe Elbe"], [], [0, 1]),
    ],
)
def test_own_words_are_those_that_no_other_text_and_no_question_has(texts, questions, words):
    assert own_words(texts, questions) == words
