import random

import pytest

from rl.collect.feedback import write
from rl.dataset_builder import DataOptions, count_repeats
from rl.dataset_builder.read.repeats import MOST, flip_rate
from rl.models import Agent
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate


def test_answers_that_were_rated_once_say_nothing():
    assert flip_rate([(1, 0), (0, 1), (0, 0)]) == (0, 0.0)


def test_two_ratings_that_disagree_half_of_the_time_could_be_drawn_by_lot():
    assert flip_rate([(1, 1), (2, 0)]) == (2, MOST)
    assert flip_rate([(1, 1)]) == (1, MOST)


@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.3])
def test_the_rate_at_which_ratings_were_turned_round_is_recovered(wrong: float):
    drawn = random.Random(0)
    votes = []
    for number in range(4000):
        count = drawn.choice((1, 2, 3, 5))
        up = sum((drawn.random() < wrong) != (number % 2) for _ in range(count))
        votes.append((up, count - up))
    assert flip_rate(votes).flip_rate == pytest.approx(wrong, abs=0.02)


@pytest.mark.django_db
def test_ratings_of_held_out_prompts_do_not_count(agent: Agent):
    for number in range(40):
        trace = make_trace(agent, f"Question {number}?")
        for rater, value in (("alice", 1), ("bob", 1), ("carol", 0)):
            rate(trace, value, rater)
    every = count_repeats(agent, DataOptions(val_split=0))
    assert every.judgements == 80
    assert every.flip_rate == MOST, "two of the three pairs of ratings disagree"
    assert 40 <= count_repeats(agent, DataOptions(val_split=0.25)).judgements < 75


@pytest.mark.django_db
def test_picks_between_the_same_two_answers_repeat_each_other(agent: Agent):
    one, other = make_trace(agent, response="One."), make_trace(agent, response="Another.")
    for rater, choice in (("alice", "left"), ("bob", "left"), ("carol", "right")):
        write.compare(one, other, choice=choice, rater=rater, source="test")
    assert count_repeats(agent, DataOptions(val_split=0)).judgements == 2
