from __future__ import annotations

from collections import Counter

from rl.data_formatter.merging import merge_same_texts
from rl.data_formatter.opinions import DUPLICATE
from tests.data_formatter.judged import judged


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
