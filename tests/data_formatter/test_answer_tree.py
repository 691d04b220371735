from __future__ import annotations

import math

import pytest

from rl.data_formatter.answer_tree import END, AnswerTree, choose_option

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
