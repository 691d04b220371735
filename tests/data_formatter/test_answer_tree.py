import math

import pytest

from rl.data_formatter.answer_tree import END, FEWEST_TEXTS, AnswerTree, Remembered, choose_option

TREE = AnswerTree({"card": (1,), "card lost": (1, 2, 5), "card late": (1, 2, 6), "cash": (7, 8)})


def test_answers_part_where_their_tokens_differ():
    first, second, third = TREE.partings()
    assert (first.prefix, first.options) == ((), {1: ("card", "card lost", "card late"), 7: ("cash",)})
    assert (second.prefix, second.options) == ((1,), {END: ("card",), 2: ("card lost", "card late")})
    assert (third.prefix, third.options) == ((1, 2), {5: ("card lost",), 6: ("card late",)})


def test_what_the_answers_left_have_in_common_is_passed_over():
    assert TREE.parting(("card lost", "card late")).prefix == (1, 2)


def test_options_are_compared_less_what_they_have_anyhow_and_with_the_support_of_answers():
    parting = TREE.parting(tuple(TREE.tokens))
    scores = {1: math.log(0.6), 7: math.log(0.3)}
    assert choose_option(parting, scores, {}, {}) == pytest.approx({1: 2 / 3, 7: 1 / 3})
    assert list(choose_option(parting, scores, scores, {}).values()) == pytest.approx([0.5, 0.5])
    assert next(iter(choose_option(parting, scores, {}, {"cash": 2.0}))) == 7
    assert choose_option(parting, scores, {}, {"card late": 1.0})[1] == pytest.approx(2 * math.e / (2 * math.e + 1))


def test_of_answers_that_cannot_be_told_apart_the_first_is_kept():
    tree = AnswerTree({"café": (1, 2), "cafe\u0301": (1, 2), "tea": (3,)})
    assert list(tree.tokens) == ["café", "tea"]
    assert [len(parting.options) for parting in tree.partings()] == [2]


TASK = "Which team should answer this message: cards, cash or identity? Answer with its name.\n\nMessage: "
SAID = [
    ("I've lost my card. What can I do about that?", "cards"),
    ("The machine swallowed my card", "cards"),
    ("The cash machine gave me too little money", "cash"),
    ("How do I prove who I am?", "identity"),
    ("Which papers do you need for my identity?", "identity"),
    ("Can I take out money abroad?", "cash"),
]


def remembered(number: int = len(SAID)) -> Remembered:
    return Remembered([(TASK + text, answer) for text, answer in SAID[:number]])


def best(support: dict[str, float]) -> str:
    return max(support, key=lambda answer: support[answer])


def test_one_correction_supports_its_answer_to_a_like_text_and_to_no_other():
    one = remembered(1)
    assert one.support(TASK + "I lost my card, what should I do?")["cards"] > 3
    assert one.support(TASK + "Top-up is not working") == {}


def test_the_answer_of_the_texts_that_read_most_alike_has_the_most_support():
    every = remembered()
    assert len(every) >= FEWEST_TEXTS
    assert best(every.support(TASK + "my card is lost")) == "cards"
    assert best(every.support(TASK + "too little cash came out of the machine")) == "cash"
    assert best(every.support(TASK + "prove my identity")) == "identity"


def test_a_text_that_was_corrected_itself_is_all_but_decided():
    support = remembered().support(TASK + SAID[2][0])
    assert support["cash"] > 9
    assert support.get("cards", 0.0) < 3


def test_what_the_model_has_not_learned_counts_more_for_like_texts_and_nothing_for_others():
    text, other = TASK + "I lost the card. What can I do?", TASK + "zebra"
    learned, unlearned = remembered().support(text), remembered().support(text, unlearned=1)
    assert SAID[0][1] == best(unlearned) == "cards"
    assert unlearned["cards"] > learned["cards"] + 1
    assert {**unlearned, "cards": 0.0} == {**learned, "cards": 0.0}
    assert remembered().support(other, unlearned=1) == remembered().support(other)


def test_what_all_texts_have_in_common_says_nothing():
    assert max(remembered().support(TASK + "zebra").values(), default=0.0) < 0.5


def test_a_text_can_be_asked_as_if_it_had_never_been_corrected():
    text = TASK + SAID[2][0]
    assert remembered().support(text, of_others=True).get("cash", 0.0) < 3
    assert remembered(1).support(TASK + SAID[0][0], of_others=True) == {}


def test_nothing_is_remembered_of_nothing():
    assert Remembered([]).support("anything") == {}
    assert Remembered([("", "cards")], ["", "?"]).support("") in ({}, {"cards": 8.0})
