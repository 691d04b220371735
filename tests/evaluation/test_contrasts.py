from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.evaluation.held_out import contrasts


def message(text: str, role: str = "assistant") -> list[dict[str, str]]:
    return [{"role": role, "content": text}]


def single(question: str, answer: str, label: bool) -> dict[str, Any]:
    return {"prompt": message(question, "user"), "completion": message(answer), "label": label, "prompt_key": question}


def test_pairs_are_contrasts_already():
    rows = [{"prompt": message("q", "user"), "chosen": message("a"), "rejected": message("b"), "prompt_key": "q"}]
    assert contrasts("dpo", iter(rows)) == rows


def test_a_prompt_with_good_and_bad_answers_is_compared_with_itself():
    rows = [single("q", "good", True), single("q", "bad", False), single("q", "worse", False)]
    matches = contrasts("kto", rows)
    assert [(match["chosen"], match["rejected"]) for match in matches] == [
        (message("good"), message("bad")),
        (message("good"), message("worse")),
    ]
    assert all(match["prompt_key"] == "q" and "rejected_prompt" not in match for match in matches)


def test_other_prompts_are_matched_one_to_one():
    rows = [single(f"liked {n}", f"good {n}", True) for n in range(5)] + [
        single(f"not {n}", "bad", False) for n in range(3)
    ]
    matches = contrasts("kto", rows)
    assert len(matches) == 3
    assert (
        len({match["prompt_key"] for match in matches})
        == len({str(match["rejected_prompt"]) for match in matches})
        == 3
    )
    assert all(match["prompt"][0]["content"] == match["prompt_key"] for match in matches)
    assert contrasts("kto", reversed(rows)) == matches


def test_one_class_gives_no_contrast():
    assert contrasts("kto", [single("q", "good", True)]) == []


def test_of_a_group_the_best_and_the_worst_answer_are_compared():
    row = {
        "prompt": message("q", "user"),
        "completions": [message("b"), message("a"), message("c")],
        "rewards": [0.5, 0.9, 0.1],
        "prompt_key": "q",
    }
    [match] = contrasts("grpo", [row])
    assert (match["chosen"], match["rejected"]) == (message("a"), message("c"))


def test_rows_that_cannot_be_compared_are_refused():
    with pytest.raises(UsageError, match="known: mpo, sft, dpo, kto, grpo"):
        contrasts("reward", [])
