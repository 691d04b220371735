from collections import Counter

import pytest

from rl.base.records import FeedbackRecord, TraceRecord
from rl.data_formatter.labelled import NEUTRAL, NO_LABEL, LabelRule, label_of, labelled_row
from rl.data_formatter.opinions import EMPTY_ANSWER, LOW_CONFIDENCE
from rl.rewards.engine import person_label
from tests.data_formatter.answers import judged

RULE = LabelRule(reward_threshold=0.6, proposal_threshold=0.8)


def label(rule: LabelRule = RULE, **said):
    skipped: Counter[str] = Counter()
    return label_of(judged(1, **said), rule, skipped), skipped


@pytest.mark.parametrize(
    ("ratings", "good"), [((1.0,), True), ((0.0,), False), ((1.0, 0.0, 1.0), True), ((0.75, 0.1), False)]
)
def test_people_decide_by_the_mean_of_their_ratings(ratings, good):
    found, _ = label(ratings=ratings, reward=0.0 if good else 1.0, proposed=(not good, 1.0))
    assert (found.good, found.source) == (good, "person")
    assert found.feedback_ids == tuple(range(10, 10 + len(ratings)))


def test_a_proposal_that_is_sure_enough_goes_before_the_reward():
    assert label(proposed=(False, 0.8), reward=0.9)[0].source == "proposed"
    found, _ = label(proposed=(False, 0.79), reward=0.9)
    assert (found.good, found.source) == (True, "reward")


def test_no_proposal_counts_unless_a_person_chose_a_threshold():
    found, skipped = label(LabelRule(), proposed=(True, 1.0))
    assert found is None
    assert skipped == {NO_LABEL: 1}


@pytest.mark.parametrize(("reward", "good"), [(0.6, True), (0.59, False), (0.0, False)])
def test_a_reward_from_the_threshold_on_is_good(reward, good):
    assert label(reward=reward)[0].good is good


def test_a_label_by_reward_rests_on_ratings_and_outcomes():
    found, _ = label(ratings=(0.5,), outcomes=(7,), reward=0.9)
    assert found.feedback_ids == (10, 7)


@pytest.mark.parametrize("ratings", [(0.5,), (1.0, 0.0)])
def test_a_mean_in_the_middle_says_nothing(ratings):
    assert label(ratings=ratings, reward=0.9)[0].source == "reward"
    for reward in (None, 0.5):  # that of the ratings alone
        found, skipped = label(ratings=ratings, reward=reward)
        assert found is None
        assert skipped == {NEUTRAL: 1}


def test_raters_who_agree_too_little_are_left_out_although_a_reward_would_know():
    rule = LabelRule(min_confidence=0.7)
    found, skipped = label(rule, ratings=(1.0, 1.0, 0.0), reward=0.9)
    assert found is None
    assert skipped == {LOW_CONFIDENCE: 1}
    assert label(rule, ratings=(1.0, 1.0, 1.0, 0.0))[0].good


@pytest.mark.parametrize("values", [(1.0,), (0.0, 1.0), (0.2, 0.9), (0.5,), ()])
def test_the_label_of_people_is_the_one_that_rewards_know(values):
    events = tuple(FeedbackRecord(kind="rating", value=value) for value in values)
    record = TraceRecord(id="1", agent="a", prompt=(), response="", feedback=events)
    found, _ = label(LabelRule(), ratings=values)
    assert (found.good if found else None) == person_label(record)


def test_a_row_is_a_conversation_with_its_label_and_where_it_came_from():
    row = labelled_row(judged(3, " Yes. ", ratings=(1.0,)), RULE, Counter())
    assert row == {
        "prompt": [{"role": "user", "content": "Question p"}],
        "completion": [{"role": "assistant", "content": " Yes. "}],
        "label": True,
        "label_source": "person",
        "prompt_key": "p",
        "feedback": [30],
        "split_key": "hash of p",
    }


def test_an_answer_without_words_gives_no_row():
    skipped: Counter[str] = Counter()
    assert labelled_row(judged(1, " \n", ratings=(1.0,)), RULE, skipped) is None
    assert skipped == {EMPTY_ANSWER: 1}
