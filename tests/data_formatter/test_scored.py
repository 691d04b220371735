from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from rl.data_formatter.labelled import NO_LABEL, LabelRule
from rl.data_formatter.opinions import EMPTY_ANSWER, LOW_CONFIDENCE
from rl.data_formatter.scored import NO_REWARD, Score, of_scores, score_of, scored_row, single_row
from tests.data_formatter.answers import judged


def test_a_row_holds_the_reward_and_the_feedback_behind_it():
    row = scored_row(judged(2, "Yes.", ratings=(1.0,), outcomes=(5,), reward=0.1 + 0.2), Counter())
    assert row["completion"] == [{"role": "assistant", "content": "Yes."}]
    assert (row["reward"], row["feedback"]) == (0.3, [5, 20])


def test_answers_without_a_reward_or_without_words_are_counted():
    skipped: Counter[str] = Counter()
    assert scored_row(judged(1, ratings=(1.0,)), skipped) is None
    assert scored_row(judged(1, "", reward=0.5), skipped) is None
    assert skipped == {NO_REWARD: 1, EMPTY_ANSWER: 1}


SURE = LabelRule(proposal_threshold=0.9)


@pytest.mark.parametrize(
    ("said", "value", "source"),
    [
        ({"ratings": (1.0, 0.5), "reward": 0.1, "proposed": (False, 0.95)}, 0.75, "person"),
        ({"ratings": (0.5,), "reward": 0.9}, 0.5, "person"),
        ({"reward": 0.1, "proposed": (True, 0.95)}, 0.1, "reward"),
        ({"proposed": (True, 0.95)}, 0.95, "proposed"),
        ({"proposed": (False, 0.95)}, 0.05, "proposed"),
    ],
)
def test_people_know_best_then_rewards_then_proposals(said, value: float, source: str):
    score = score_of(judged(1, **said), SURE, Counter())
    assert score is not None
    assert (score.value, score.source) == (pytest.approx(value), source)


def test_ratings_that_the_reward_counts_already_are_not_counted_twice():
    skipped: Counter[str] = Counter()
    of_decision = judged(1, ratings=(1.0,), in_reward=(10,), outcomes=(7,), reward=0.91)
    assert score_of(of_decision, SURE, skipped) == Score(0.91, "reward", (10, 7))
    assert score_of(replace(of_decision, reward=None), SURE, skipped) == Score(1.0, "person", (10,))
    both = judged(1, ratings=(1.0, 0.0), in_reward=(10,), reward=0.91)
    assert score_of(both, SURE, skipped) == Score(0.0, "person", (11,))


def test_what_nothing_tells_of_is_counted():
    skipped: Counter[str] = Counter()
    assert score_of(judged(1, proposed=(True, 0.7)), SURE, skipped) is None
    assert score_of(judged(1, proposed=(True, 0.7)), LabelRule(), skipped) is None
    assert score_of(judged(1, ratings=(1.0, 1.0, 0.0)), LabelRule(min_confidence=0.8), skipped) is None
    assert single_row(judged(1, " ", reward=0.5), SURE, skipped) is None
    assert skipped == {NO_LABEL: 2, LOW_CONFIDENCE: 1, EMPTY_ANSWER: 1}


def test_a_single_row_holds_the_score_and_the_feedback_behind_it():
    row = single_row(judged(2, "Yes.", ratings=(1.0, 0.0, 1.0), reward=0.1), SURE, Counter())
    assert row is not None
    assert (row["score"], row["score_source"], row["feedback"]) == (0.666667, "person", [20, 21, 22])


def message(text: str, role: str = "assistant") -> list[dict[str, str]]:
    return [{"role": role, "content": text}]


def single(question: str, answer: str, score: float, *feedback: int) -> dict[str, Any]:
    row = {"prompt": message(question, "user"), "completion": message(answer), "score": score}
    return {**row, "prompt_key": question, "feedback": list(feedback)}


def pair(question: str) -> dict[str, Any]:
    answers = {"chosen": message("a"), "rejected": message("b")}
    return {"prompt": message(question, "user"), **answers, "prompt_key": question}


def test_answers_to_different_prompts_with_different_scores_are_compared():
    [match] = of_scores([single("q", "good", 0.9, 1), single("p", "bad", 0.2, 2)])
    assert match == {
        "prompt": message("q", "user"),
        "chosen": message("good"),
        "rejected": message("bad"),
        "prompt_key": "q",
        "feedback": [1, 2],
        "scores": [0.9, 0.2],
        "rejected_prompt": message("p", "user"),
    }


def test_each_prompt_is_in_one_match_and_scores_are_far_apart():
    rows = [single(f"q{number}", "text", number / 10) for number in range(7)]
    matches = of_scores(rows)
    assert [match["scores"] for match in matches] == [[0.4, 0.0], [0.5, 0.1], [0.6, 0.2]]
    assert of_scores(reversed(rows)) == matches


def test_equal_scores_are_never_matched_and_all_others_are():
    rows = [single(f"liked {number}", "good", 1.0) for number in range(8)]
    rows += [single(f"not {number}", "bad", 0.0) for number in range(3)]
    assert [match["scores"] for match in of_scores(rows)] == [[1.0, 0.0]] * 3
    assert of_scores(rows[:8]) == []


def test_answers_to_one_prompt_are_compared_with_each_other_first():
    rows = [single("q", "good", 0.9), single("q", "bad", 0.2), single("q", "fair", 0.5), single("p", "other", 0.0)]
    [match] = of_scores(rows)
    assert (match["chosen"], match["rejected"]) == (message("good"), message("bad"))
    assert "rejected_prompt" not in match


def test_pairs_stay_and_their_prompts_are_in_no_other_match():
    rows = [single("q", "third", 0.9), pair("q"), single("p", "bad", 0.1)]
    assert of_scores(rows) == [pair("q")]
