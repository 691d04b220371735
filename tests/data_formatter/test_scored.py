from __future__ import annotations

from collections import Counter

from rl.data_formatter.opinions import EMPTY_ANSWER
from rl.data_formatter.scored import NO_REWARD, scored_row
from tests.data_formatter.judged import judged


def test_a_row_holds_the_reward_and_the_feedback_behind_it():
    row = scored_row(judged(2, "Yes.", ratings=(1.0,), outcomes=(5,), reward=0.1 + 0.2), Counter())
    assert row["completion"] == [{"role": "assistant", "content": "Yes."}]
    assert (row["reward"], row["feedback"]) == (0.3, [5, 20])


def test_answers_without_a_reward_or_without_words_are_counted():
    skipped: Counter[str] = Counter()
    assert scored_row(judged(1, ratings=(1.0,)), skipped) is None
    assert scored_row(judged(1, "", reward=0.5), skipped) is None
    assert skipped == {NO_REWARD: 1, EMPTY_ANSWER: 1}
