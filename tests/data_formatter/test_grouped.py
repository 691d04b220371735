import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rl.data_formatter.grouped import EQUAL_REWARDS, MOST_ANSWERS, ONE_ANSWER, RewardGroup, merge_same_texts
from rl.data_formatter.opinions import DUPLICATE, OVER_LIMIT
from rl.data_formatter.scored import NO_REWARD
from tests.data_formatter.answers import judged


def group(*answers):
    skipped: Counter[str] = Counter()
    collected = RewardGroup(skipped)
    for answer in answers:
        collected.take(answer)
    return collected.finish(), skipped


def by_text(found) -> dict[str, float]:
    row = found.row
    return dict(zip((one[0]["content"] for one in row["completions"]), row["rewards"], strict=True))


def test_a_group_holds_each_answer_with_its_reward():
    found, _ = group(judged(1, "Good.", reward=0.9, ratings=(1.0,)), judged(2, "Bad.", reward=0.2))
    assert by_text(found) == {"Good.": 0.9, "Bad.": 0.2}
    assert found.row["prompt"] == [{"role": "user", "content": "Question p"}]
    assert found.row["completions"][0][0]["role"] == "assistant"
    assert found.row["feedback"] == [10]
    assert found.trace_ids == {"t1", "t2"}


def test_equal_rewards_teach_nothing():
    found, skipped = group(judged(1, "One.", reward=0.7), judged(2, "Two.", reward=0.7))
    assert found is None
    assert skipped == {EQUAL_REWARDS: 1}


def test_one_answer_is_no_group():
    found, skipped = group(judged(1, "One.", reward=0.7), judged(2, "Two."))
    assert found is None
    assert skipped == {ONE_ANSWER: 1, NO_REWARD: 1}


def test_nothing_rewarded_is_counted_once_for_each_answer():
    assert group(judged(1), judged(2)) == (None, {NO_REWARD: 2})


def test_the_same_text_is_one_answer_with_the_mean_of_its_rewards():
    answers = [judged(1, "Yes.", reward=1.0), judged(2, " Yes.", reward=0.5), judged(3, "No.", reward=0.1)]
    found, skipped = group(*answers)
    assert by_text(found) == {"Yes.": 0.75, "No.": 0.1}
    assert found.trace_ids == {"t1", "t2", "t3"}
    assert skipped == {DUPLICATE: 1}


def test_a_mean_that_differs_by_rounding_only_does_not_differ():
    same = [judged(number, "Yes.", reward=0.1) for number in range(3)]
    assert group(*same, judged(9, "No.", reward=0.1))[0] is None


def test_a_prompt_with_very_many_answers_makes_one_row_of_bounded_size():
    answers = [judged(number, f"Answer {number}", reward=number / 1000) for number in range(1000)]
    found, skipped = group(*answers)
    assert len(found.row["rewards"]) == len(found.trace_ids) == MOST_ANSWERS
    assert skipped[OVER_LIMIT] == 1000 - MOST_ANSWERS
    random.Random(1).shuffle(answers)
    assert by_text(group(*answers)[0]) == by_text(found)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from([0.0, 0.3, 1.0])), max_size=20), st.randoms())
def test_the_order_of_arrival_changes_nothing(said, rng):
    answers = [judged(number, text, reward=reward) for number, (text, reward) in enumerate(said)]
    one, skipped = group(*answers)
    rng.shuffle(answers)
    other, skipped_too = group(*answers)
    assert skipped == skipped_too
    assert (one and by_text(one)) == (other and by_text(other))
    assert one is None or len(set(one.row["rewards"])) > 1


def test_equal_texts_to_one_prompt_are_one_answer_and_all_votes_count():
    skipped: Counter[str] = Counter()
    answers = [
        judged(1, "Yes.", ratings=(1.0,), reward=0.9, proposed=(True, 0.7)),
        judged(2, " Yes.\n", ratings=(0.0, 0.0), reward=0.6, proposed=(False, 0.8), outcomes=(5,)),
        judged(3, "Yes.", corrections=("Yes, today.",), preferences=(6,)),
        judged(4, "Yes.", corrections=("Yes, today.",)),
    ]
    [answer] = merge_same_texts(answers, skipped)
    assert answer.trace_ids == ("t1", "t2", "t3", "t4")
    assert [rating.value for rating in answer.ratings] == [1.0, 0.0, 0.0]
    assert (answer.reward, answer.proposed, answer.outcomes) == (0.75, (False, 0.8), (5,))
    assert (answer.corrections, answer.preferences) == (("Yes, today.",), (6,))
    assert skipped == {DUPLICATE: 3}


def test_other_texts_other_prompts_and_empty_answers_stay_apart():
    skipped: Counter[str] = Counter()
    answers = [
        judged(1, "No."),
        judged(2, "Yes."),
        judged(3, "Yes.", key="q"),
        judged(4, "", key="q"),
        judged(5, "", key="q"),
    ]
    assert len(list(merge_same_texts(answers, skipped))) == 5
    assert not skipped
