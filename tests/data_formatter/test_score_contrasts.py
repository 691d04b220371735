from __future__ import annotations

from typing import Any

from rl.data_formatter.score_contrasts import of_scores


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
