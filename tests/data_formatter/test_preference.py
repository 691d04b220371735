import random
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.data_formatter import build_preference_pairs, opinions
from tests.data_formatter.answers import answer, direct


def build(answers=(), stated=(), **options):
    skipped: Counter[str] = Counter()
    return build_preference_pairs(answers, stated, skipped=skipped, **options), skipped


def order(pairs):
    return {(pair.chosen, pair.rejected) for pair in pairs}


def test_every_liked_answer_is_chosen_over_every_disliked_one():
    pairs, skipped = build([answer(1, "A", up=1), answer(2, "B", down=1), answer(3, "C", down=2)])
    assert order(pairs) == {("A", "B"), ("A", "C")}
    assert pairs[0].prompt == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Question p"}]
    assert pairs[0].question_id == "p"
    assert not skipped


def test_a_pair_tells_what_it_rests_on():
    (pair,), _ = build([answer(1, "A", up=3, down=1), answer(2, "B", down=2)])
    expected = {"pair_type": "preference", "confidence": 0.75, "feedback": [10, 11, 12, 13, 20, 21], "count": 1}
    assert pair.metadata == expected


def test_prompts_do_not_mix():
    pairs, skipped = build([answer(1, "A", up=1, key="p"), answer(2, "B", down=1, key="q")])
    assert pairs == []
    assert skipped == {opinions.ONLY_LIKED: 1, opinions.ONLY_DISLIKED: 1}


def test_a_draw_between_raters_is_no_evidence():
    pairs, skipped = build([answer(1, "A", up=2, down=2), answer(2, "B", down=1)])
    assert pairs == []
    assert skipped == {opinions.TIE: 1, opinions.ONLY_DISLIKED: 1}


def test_the_same_text_given_twice_is_one_answer():
    pairs, skipped = build([answer(1, "A", up=1), answer(2, "A\n", up=1), answer(3, "B", down=1)])
    assert order(pairs) == {("A", "B")}
    assert pairs[0].metadata["feedback"] == [10, 20, 30]
    assert skipped == {opinions.DUPLICATE: 1}


def test_the_same_text_liked_once_and_disliked_once_is_a_draw():
    pairs, skipped = build([answer(1, "A", up=1), answer(2, "A", down=1), answer(3, "B", down=1)])
    assert pairs == []
    assert skipped == {opinions.DUPLICATE: 1, opinions.TIE: 1, opinions.ONLY_DISLIKED: 1}


def test_empty_answers_are_left_out():
    pairs, skipped = build([answer(1, " \n", up=1), answer(2, "B", down=1)], [direct(7, "A", ""), direct(8, "", "A")])
    assert pairs == []
    assert skipped == {opinions.EMPTY_ANSWER: 3, opinions.ONLY_DISLIKED: 1}


def test_answers_below_the_asked_confidence_are_left_out():
    pairs, skipped = build([answer(1, "A", up=2, down=1), answer(2, "B", down=1)], min_confidence=0.7)
    assert pairs == []
    assert skipped == {opinions.LOW_CONFIDENCE: 1, opinions.ONLY_DISLIKED: 1}


def test_a_stated_preference_needs_no_ratings():
    (pair,), skipped = build((), [direct(5, "better", "worse")])
    assert (pair.chosen, pair.rejected) == ("better", "worse")
    assert pair.metadata == {"pair_type": "preference", "confidence": 1.0, "feedback": [5], "count": 1}
    assert not skipped


def test_a_preference_between_equal_texts_is_left_out():
    pairs, skipped = build((), [direct(5, "same", "same ")])
    assert pairs == []
    assert skipped == {opinions.SAME_TEXT: 1}


def test_a_preference_stated_twice_is_one_pair_that_counts_two():
    (pair,), skipped = build((), [direct(5, "A", "B"), direct(6, "A", "B")])
    assert pair.metadata["count"] == 2
    assert pair.metadata["feedback"] == [5, 6]
    assert skipped == {opinions.DUPLICATE: 1}


def test_the_majority_wins_when_people_state_opposite_preferences():
    (pair,), skipped = build((), [direct(5, "A", "B"), direct(6, "B", "A"), direct(7, "A", "B")])
    assert (pair.chosen, pair.rejected) == ("A", "B")
    assert pair.metadata["confidence"] == pytest.approx(2 / 3, abs=1e-4)
    assert pair.metadata["feedback"] == [5, 7]
    assert skipped == {opinions.OUTVOTED: 1, opinions.DUPLICATE: 1}


def test_opposite_preferences_in_equal_number_teach_nothing():
    pairs, skipped = build((), [direct(5, "A", "B"), direct(6, "B", "A")])
    assert pairs == []
    assert skipped == {opinions.CONTRADICTION: 2}


def test_a_stated_preference_against_what_the_ratings_say_is_a_contradiction():
    pairs, skipped = build([answer(1, "A", up=1), answer(2, "B", down=1)], [direct(5, "B", "A")])
    assert pairs == []
    assert skipped == {opinions.CONTRADICTION: 2}


def test_a_stated_preference_and_the_ratings_that_agree_are_one_pair():
    (pair,), skipped = build([answer(1, "A", up=2, down=1), answer(2, "B", down=1)], [direct(5, "A", "B")])
    assert pair.metadata["count"] == 2
    assert pair.metadata["confidence"] == pytest.approx((1 + 2 / 3) / 2, abs=1e-4)
    assert pair.metadata["feedback"] == [5, 10, 11, 12, 20]
    assert skipped == {opinions.DUPLICATE: 1}


def test_the_limit_keeps_the_surest_pairs():
    liked = [answer(i, f"good {i}", up=i + 1, down=1) for i in range(1, 6)]
    pairs, skipped = build([*liked, answer(9, "bad", down=1)], max_pairs_per_question=2)
    assert [pair.chosen for pair in pairs] == ["good 5", "good 4"]
    assert skipped == {opinions.OVER_LIMIT: 3}


def test_the_limit_counts_stated_preferences_too():
    stated = [direct(i, f"good {i}", "bad") for i in range(8)]
    pairs, skipped = build((), stated)
    assert len(pairs) == 5
    assert skipped == {opinions.OVER_LIMIT: 3}


def test_every_possible_pair_is_built_or_counted():
    answers = [answer(i, f"good {i}", up=1) for i in range(20)] + [answer(i, f"bad {i}", down=1) for i in range(20, 50)]
    pairs, skipped = build(answers)
    assert len(pairs) + skipped[opinions.OVER_LIMIT] == 20 * 30


texts = st.sampled_from(["A", "B", "C", "D ", "D", ""])
rated = st.lists(st.tuples(texts, st.integers(0, 2), st.integers(0, 2), st.sampled_from("pq")), max_size=15)
stated = st.lists(st.tuples(texts, texts, st.sampled_from("pq")), max_size=8)


@given(rated, stated, st.randoms(use_true_random=False))
def test_the_pairs_do_not_depend_on_the_order_of_what_comes_in(rows, preferences, rng: random.Random):
    answers = [answer(i, text, up, down, key=key) for i, (text, up, down, key) in enumerate(rows)]
    direct_ones = [direct(i, a, b, key=key) for i, (a, b, key) in enumerate(preferences)]
    before = build(answers, direct_ones)
    rng.shuffle(answers)
    rng.shuffle(direct_ones)
    assert build(answers, direct_ones) == before


@given(rated, stated)
def test_a_pair_never_comes_twice_nor_turned_around_nor_with_equal_texts(rows, preferences):
    answers = [answer(i, text, up, down, key=key) for i, (text, up, down, key) in enumerate(rows)]
    pairs, _ = build(answers, [direct(i, a, b, key=key) for i, (a, b, key) in enumerate(preferences)])
    seen = [(pair.question_id, frozenset((pair.chosen.strip(), pair.rejected.strip()))) for pair in pairs]
    assert len(set(seen)) == len(seen)
    assert all(len(both) == 2 and "" not in both for _, both in seen)
    assert all(0.5 <= pair.metadata["confidence"] <= 1 for pair in pairs)


def test_twenty_thousand_answers_take_a_second():
    answers = [answer(i, f"text {i}", up=i % 3 > 0, down=i % 3 == 0, key=f"p{i % 4000}") for i in range(20_000)]
    started = time.process_time()
    pairs, _ = build(answers)
    assert len(pairs) > 10_000
    assert time.process_time() - started < 10


def test_a_prompt_with_very_many_answers_does_not_take_the_square_of_it():
    answers = [answer(i, f"text {i}", up=i % 2, down=1 - i % 2) for i in range(10_000)]
    started = time.process_time()
    pairs, skipped = build(answers)
    assert len(pairs) == 5
    assert skipped[opinions.OVER_LIMIT] == 5000 * 5000 - 5
    assert time.process_time() - started < 10
