from typing import Any

import pytest

from rl.data_formatter.fresh import fresh_trace
from rl.evaluation.measures import fields
from rl.evaluation.measures.reward import Earnings

EXPECTED = {"swimlane": "PROJECT", "labels": ["a", "b"], "confidence": 0.9}


def row(expected: dict[str, Any], reward: float | None = None) -> dict[str, Any]:
    prompt = [{"role": "user", "content": "File it."}]
    return {"prompt": prompt, "prompt_key": "", "details": {"expected": expected}, "reward": reward}


@pytest.mark.parametrize(
    ("answer", "value", "components"),
    [
        ('Sure: {"swimlane": "Project", "labels": ["b", "a"]} {}', 1.0, {"swimlane": 1, "labels": 1, "confidence": 0}),
        (
            '{"swimlane": "Home", "labels": ["a"], "confidence": 0.9}',
            0.0,
            {"swimlane": 0, "labels": 0, "confidence": 1},
        ),
        ('{broken {"swimlane": " project "}', 1.0, {"swimlane": 1, "labels": 0, "confidence": 0}),
        ("PROJECT", 0.0, {}),
        ("", 0.0, {}),
    ],
)
def test_the_field_that_decides_makes_an_answer_right(answer: str, value: float, components: dict[str, float]):
    score = fields.FieldScorer("swimlane")(fresh_trace(row(EXPECTED), answer))
    assert (score.value, score.components) == (value, components)


def test_where_none_decides_all_do():
    scorer = fields.FieldScorer("")
    right = '{"swimlane": "PROJECT", "labels": ["a", "b"], "confidence": 0.9, "more": 1}'
    assert scorer(fresh_trace(row(EXPECTED), right)).value == 1.0
    assert scorer(fresh_trace(row(EXPECTED), right.replace("0.9", "0.8"))).value == 0.0


def test_figures_are_of_each_field_and_name_what_cannot_be_read():
    rows = [row({"swimlane": "HOME"}, reward=1.5), row({"swimlane": "HOME", "urgency": "To Do"}, reward=-5)]
    good, other = '{"swimlane": "HOME", "urgency": "To Do"}', '{"swimlane": "HABIT"}'
    answers = {"new": [good, "no idea"], "base": [other, other], "current": [other, good]}
    earnings = Earnings(rows, answers, {"new": [1.0, 0.0], "base": [0.0, 0.0], "current": [0.0, 1.0]}, 0)
    figures = fields.describe(earnings, rows, "filer")
    assert figures.pop("error_examples") == [
        {"index": 1, "prompt": "File it.", "response": "no idea", "error": "the answer has no JSON object"}
    ]
    assert figures.pop("fields") == [
        {"name": "swimlane", "prompts": 2, "models": {"new": 0.5, "base": 0.0, "current": 0.5}},
        {"name": "urgency", "prompts": 1, "models": {"new": 0.0, "base": 0.0, "current": 1.0}},
    ]
    assert figures == {
        "field": "swimlane",
        "accuracy": 0.5,
        "total_examples": 2,
        "answered": 2,
        "correct": 1,
        "errors": 1,
        "avg_reward": -1.75,
    }
