"""Training sets for reward models: pairs of people, else of rewards."""

from __future__ import annotations

import pytest

from rl.base.errors import NotEnoughData
from rl.dataset_builder import DataOptions, freeze, survey
from rl.models import Feedback
from tests.conftest import make_trace
from tests.dataset_builder.ratings import all_rows, rate, rate_prompts

ONE = DataOptions(min_samples=1, val_split=0)


def texts(row) -> tuple[str, str]:
    return row["chosen"][0]["content"], row["rejected"][0]["content"]


def rewarded(agent, question: str, *values: float | None) -> None:
    for number, value in enumerate(values):
        make_trace(agent, question, f"Answer {number}.", reward=value)


def test_pairs_of_people_come_first_and_alone(agent, data_dir):
    rate_prompts(agent, 2)
    rewarded(agent, "Another?", 0.1, 0.9)
    frozen = freeze(agent, ONE, method="reward_model")
    assert [texts(row) for row in all_rows(frozen)] == [texts(row) for row in all_rows(freeze(agent, ONE))]
    assert (frozen.method, frozen.train_rows) == ("reward_model", 2)


def test_rewards_make_pairs_within_one_prompt_only(agent, data_dir):
    rewarded(agent, "First?", 0.9, 0.2, 0.5, None)
    rewarded(agent, "Second?", 0.4)
    rows = all_rows(freeze(agent, ONE, method="reward_model"))
    assert [texts(row) for row in rows] == [
        ("Answer 0.", "Answer 1."),
        ("Answer 0.", "Answer 2."),
        ("Answer 2.", "Answer 1."),
    ]
    assert {row["prompt"][0]["content"] for row in rows} == {"First?"}
    assert rows[0]["difference"] == 0.7


def test_equal_rewards_say_nothing(agent, data_dir):
    rewarded(agent, "First?", 0.5, 0.5, 0.6)
    assert len(all_rows(freeze(agent, ONE, method="reward_model"))) == 2


def test_one_prompt_gives_no_more_pairs_than_asked_for(agent, data_dir):
    rewarded(agent, "First?", *(number / 10 for number in range(10)))
    options = DataOptions(min_samples=1, val_split=0, max_pairs_per_question=2)
    rows = all_rows(freeze(agent, options, method="reward_model"))
    assert [row["difference"] for row in rows] == [0.9, 0.8]


def test_scores_of_answers_that_are_all_liked_make_pairs_by_their_rewards(agent, data_dir):
    for number, stars in enumerate((5, 4)):
        rate(make_trace(agent, "First?", f"Answer {number}.", reward=stars / 5), stars, scale="stars")
    [row] = all_rows(freeze(agent, ONE, method="reward_model"))
    assert texts(row) == ("Answer 0.", "Answer 1.")
    assert len(row["feedback"]) == 2
    assert Feedback.objects.exclude(training_set=None).count() == 2
    found = survey(agent, ONE, method="reward_model")
    assert (found.ratings_read, found.train_rows) == (2, 1)


def test_too_few_pairs_of_rewards_are_refused_with_what_to_do(agent, data_dir):
    rewarded(agent, "First?", 0.1, 0.9)
    with pytest.raises(NotEnoughData, match="the rewards give 1 pair of answers to 1 prompt, and 10 are needed: rate"):
        freeze(agent, DataOptions(), method="reward_model")


def test_nothing_at_all_is_refused_as_for_dpo(agent, data_dir):
    make_trace(agent, "First?")
    with pytest.raises(NotEnoughData, match="0 ratings of 0 prompts give 0 pairs"):
        freeze(agent, DataOptions(), method="reward_model")
