from __future__ import annotations

from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.evaluation.held_out import contrasts


def said(text: str, role: str = "assistant") -> list[dict[str, str]]:
    return [{"role": role, "content": text}]


def single(question: str, answer: str, label: bool) -> dict[str, Any]:
    return {"prompt": said(question, "user"), "completion": said(answer), "label": label, "prompt_key": question}


def test_pairs_are_contrasts_already():
    rows = [{"prompt": said("q", "user"), "chosen": said("a"), "rejected": said("b"), "prompt_key": "q"}]
    assert contrasts("dpo", iter(rows)) == rows


def test_a_prompt_with_good_and_bad_answers_is_compared_with_itself():
    rows = [single("q", "good", True), single("q", "bad", False), single("q", "worse", False)]
    found = contrasts("kto", rows)
    assert [(one["chosen"], one["rejected"]) for one in found] == [
        (said("good"), said("bad")),
        (said("good"), said("worse")),
    ]
    assert all(one["prompt_key"] == "q" and "rejected_prompt" not in one for one in found)


def test_other_prompts_are_matched_one_to_one():
    rows = [single(f"liked {n}", f"good {n}", True) for n in range(5)] + [
        single(f"not {n}", "bad", False) for n in range(3)
    ]
    found = contrasts("kto", rows)
    assert len(found) == 3
    assert len({one["prompt_key"] for one in found}) == len({str(one["rejected_prompt"]) for one in found}) == 3
    assert all(one["prompt"][0]["content"] == one["prompt_key"] for one in found)
    assert contrasts("kto", reversed(rows)) == found


def test_one_class_gives_no_contrast():
    assert contrasts("kto", [single("q", "good", True)]) == []


def test_of_a_group_the_best_and_the_worst_answer_are_compared():
    row = {
        "prompt": said("q", "user"),
        "completions": [said("b"), said("a"), said("c")],
        "rewards": [0.5, 0.9, 0.1],
        "prompt_key": "q",
    }
    [found] = contrasts("grpo", [row])
    assert (found["chosen"], found["rejected"]) == (said("a"), said("c"))


def test_rows_that_cannot_be_compared_are_refused():
    with pytest.raises(UsageError, match="known: dpo, kto, grpo"):
        contrasts("reward", [])
