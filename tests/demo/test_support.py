from collections import Counter

import pytest

from rl.config import TrainingConfig
from rl.demo import DEMO_TRAINING, demo_answers, phrases
from rl.demo.support import NOISE, length

SEEDS = range(5)


def is_evasive(answer: str) -> bool:
    return any(middle in answer for middle in phrases.EVASIVE_MIDDLES)


def test_a_seed_decides_everything() -> None:
    assert demo_answers(3) == demo_answers(3)
    assert demo_answers(3) != demo_answers(4)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_question_and_no_answer_is_written_twice(seed: int) -> None:
    questions = demo_answers(seed)
    assert len({question.question for question in questions}) == len(questions) == 128
    assert len({answer for question in questions for answer in question.answers}) == 256


@pytest.mark.parametrize("seed", SEEDS)
def test_length_says_nothing_about_which_answer_is_liked(seed: int) -> None:
    longer = Counter[str]()
    for question in demo_answers(seed):
        evasive, helpful = sorted(question.answers, key=is_evasive, reverse=True)
        difference = length(helpful) - length(evasive)
        assert abs(difference) <= 2
        longer["helpful" if difference > 0 else "evasive" if difference < 0 else "neither"] += 1
    assert abs(longer["helpful"] - longer["evasive"]) <= 6


@pytest.mark.parametrize("seed", SEEDS)
def test_each_question_has_one_answer_of_each_kind_in_random_order(seed: int) -> None:
    questions = demo_answers(seed)
    assert all(sum(map(is_evasive, question.answers)) == 1 for question in questions)
    assert 40 < sum(is_evasive(question.answers[0]) for question in questions) < 88


def test_raters_are_named_as_simulated_and_sometimes_err() -> None:
    ratings = [
        (rating, is_evasive(question.answers[rating.answer]))
        for seed in range(20)
        for question in demo_answers(seed)
        for rating in question.opinions
    ]
    assert all(rating.rater.startswith("simulated-") for rating, _ in ratings)
    wrong = sum(rating.up == evasive for rating, evasive in ratings) / len(ratings)
    assert wrong == pytest.approx(NOISE, abs=0.01)


def test_some_answers_have_two_different_raters() -> None:
    rated = [Counter(rating.answer for rating in question.opinions) for question in demo_answers()]
    assert {count for counts in rated for count in counts.values()} == {1, 2}
    for question in demo_answers():
        assert len({(rating.answer, rating.rater) for rating in question.opinions}) == len(question.opinions)


def test_the_recommended_training_is_a_valid_one() -> None:
    assert TrainingConfig().with_overrides(DEMO_TRAINING).epochs == DEMO_TRAINING["epochs"]
