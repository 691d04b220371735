"""Training sets for reward models: pairs of people, else of rewards, and the answers that are in none with their scores."""

import pytest

from rl.base.errors import NotEnoughData
from rl.collect.feedback.write import compare, correct
from rl.data_formatter import read_training_rows
from rl.dataset_builder import DataOptions, freeze, survey
from rl.models import Feedback
from tests.conftest import make_trace
from tests.dataset_builder.ratings import all_rows, rate, rate_prompts, rated
from tests.dataset_builder.read.test_judged import propose

ONE = DataOptions(min_samples=1, val_split=0)


def texts(row) -> tuple[str, str]:
    return row["chosen"][0]["content"], row["rejected"][0]["content"]


def pairs(rows) -> list[tuple[str, str]]:
    return [texts(row) for row in rows if "chosen" in row]


def scores(rows) -> dict[str, float]:
    return {row["completion"][0]["content"]: row["score"] for row in rows if "score" in row}


def rewarded(agent, question: str, *values: float | None) -> None:
    for number, value in enumerate(values):
        make_trace(agent, question, f"Answer {number}.", reward=value)


def test_pairs_of_people_come_first_and_every_other_score_after_them(agent, data_dir):
    rate_prompts(agent, 2)
    rewarded(agent, "Another?", 0.1, 0.9)
    frozen = freeze(agent, ONE, method="reward_model")
    rows = all_rows(frozen)
    assert pairs(rows[:2]) == [texts(row) for row in all_rows(freeze(agent, ONE))]
    assert scores(rows[2:]) == {"Answer 0.": 0.1, "Answer 1.": 0.9}
    assert (frozen.method, frozen.train_rows, frozen.feedback_count) == ("reward_model", 4, 4)
    assert (frozen.stats["prompts"], frozen.stats["prompts_read"], frozen.stats["ratings_read"]) == (3, 3, 4)
    assert list(read_training_rows(frozen.directory / "train.jsonl", "reward_model")) == rows


def test_rewards_make_pairs_within_one_prompt_and_leave_the_others_alone(agent, data_dir):
    rewarded(agent, "First?", 0.9, 0.2, 0.5, None)
    rewarded(agent, "Second?", 0.4)
    rows = all_rows(freeze(agent, ONE, method="reward_model"))
    assert pairs(rows) == [
        ("Answer 0.", "Answer 1."),
        ("Answer 0.", "Answer 2."),
        ("Answer 2.", "Answer 1."),
    ]
    assert {row["prompt"][0]["content"] for row in rows if "chosen" in row} == {"First?"}
    assert rows[0]["difference"] == 0.7
    assert scores(rows) == {"Answer 0.": 0.4}


def test_equal_rewards_make_no_pair(agent, data_dir):
    rewarded(agent, "First?", 0.5, 0.5, 0.6)
    assert len(pairs(all_rows(freeze(agent, ONE, method="reward_model")))) == 2


def test_one_prompt_gives_no_more_pairs_than_asked_for(agent, data_dir):
    rewarded(agent, "First?", *(number / 10 for number in range(10)))
    options = DataOptions(min_samples=1, val_split=0, max_pairs_per_question=2)
    rows = all_rows(freeze(agent, options, method="reward_model"))
    assert [row["difference"] for row in rows] == [0.9, 0.8]


@pytest.mark.database
def test_scores_of_answers_that_are_all_liked_make_pairs_by_their_rewards(agent, data_dir):
    for number, stars in enumerate((5, 4)):
        rate(make_trace(agent, "First?", f"Answer {number}.", reward=stars / 5), stars, scale="stars")
    [row] = all_rows(freeze(agent, ONE, method="reward_model"))
    assert texts(row) == ("Answer 0.", "Answer 1.")
    assert len(row["feedback"]) == 2
    assert Feedback.objects.exclude(training_set=None).count() == 2
    counted = survey(agent, ONE, method="reward_model")
    assert (counted.ratings_read, counted.train_rows) == (2, 1)


def test_a_score_is_what_people_gave_then_the_reward_then_a_sure_proposal(agent, data_dir):
    agent.auto_label_threshold = 0.9
    agent.save()
    by_two = make_trace(agent, "Rated?", "By two.", reward=0.1)
    for value, rater in ((0.9, "alice"), (0.6, "bob")):
        rate(by_two, value, rater, scale="score")
    propose(make_trace(agent, "Rewarded?", "By reward.", reward=0.3), True, 0.95)
    propose(make_trace(agent, "Bad?", "Proposed bad.", reward=None), False, 0.95)
    propose(make_trace(agent, "Unsure?", "Not sure.", reward=None), True, 0.7)
    rows = all_rows(freeze(agent, ONE, method="reward_model"))
    assert scores(rows) == {"By two.": 0.75, "By reward.": 0.3, "Proposed bad.": 0.05}
    sources = {row["score_source"]: len(row["feedback"]) for row in rows}
    assert sources == {"person": 2, "reward": 0, "proposed": 0}


def test_an_answer_in_a_pair_is_not_scored_again(agent, data_dir):
    edited, picked, other = (make_trace(agent, f"{name}?", f"{name}.") for name in ("Edited", "Picked", "Rated"))
    rival = make_trace(agent, "Picked?", "Rival.")
    third = make_trace(agent, "Picked?", "Third.")
    correct(edited, text="Better.", rater="alice", source="test")
    compare(picked, rival, choice="left", rater="alice", source="test")
    for trace, value in ((edited, 0), (picked, 1), (other, 1), (third, 0)):
        rate(trace, value)
    frozen = freeze(agent, ONE, method="reward_model")
    rows = all_rows(frozen)
    assert set(pairs(rows)) == {("Better.", "Edited."), ("Picked.", "Rival."), ("Picked.", "Third.")}
    assert scores(rows) == {"Rated.": 1}
    assert frozen.stats["prompts"] == 3


def test_raters_who_disagree_too_much_are_left_out(agent, data_dir):
    for rater, value in (("alice", 1), ("bob", 1), ("carol", 0)):
        rated(agent, "Disputed?", "Perhaps.", value, rater)
    rated(agent, "Clear?", "Yes.", 1)
    sure = DataOptions(min_samples=1, val_split=0, min_confidence=0.8)
    assert survey(agent, sure, method="reward_model").skipped["low confidence"] == 1
    rows = all_rows(freeze(agent, ONE, method="reward_model"))
    assert scores(rows) == {"Perhaps.": pytest.approx(2 / 3, abs=1e-6), "Yes.": 1}


def test_ten_scores_of_ten_prompts_are_enough(agent, data_dir):
    for number in range(10):
        rate(make_trace(agent, f"Question {number}?", f"Answer {number}."), number / 10, scale="score")
    frozen = freeze(agent, DataOptions(), method="reward_model")
    assert frozen.train_rows + frozen.heldout_rows == 10
    assert frozen.train_rows < 10
    assert sorted(scores(all_rows(frozen)).values()) == [number / 10 for number in range(10)]


@pytest.mark.parametrize(("score", "advice"), [(0.8, "down"), (0.2, "up"), (0.5, "up or down")])
def test_equal_scores_teach_nothing(agent, data_dir, score, advice):
    for number in range(12):
        rate(make_trace(agent, f"Question {number}?"), score, scale="score")
    why = f"scored answers to train on have the score {score:g}: .* rate some answers {advice}$"
    with pytest.raises(NotEnoughData, match=why):
        freeze(agent, DataOptions(), method="reward_model")


def test_too_few_rows_are_refused_with_what_to_do(agent, data_dir):
    rewarded(agent, "First?", 0.1, 0.9)
    rated(agent, "Second?", "Yes.", 1)
    make_trace(agent, "Third?", reward_pending=True)
    why = (
        "1 pair and 1 single scored answer make 2 rows, and 10 are needed. rate 8 more answers, by thumb, stars or score, "
        "or let rewards score them: 'manage.py calculate_rewards --agent support-chat'"
    )
    with pytest.raises(NotEnoughData, match=why):
        freeze(agent, DataOptions(), method="reward_model")


def test_nothing_at_all_is_refused(agent, data_dir):
    with pytest.raises(NotEnoughData, match="has no answers yet, and 10 rows to train on are needed"):
        freeze(agent, DataOptions(), method="reward_model")
