from __future__ import annotations

import pytest

from rl.base.measurements import PairScore
from rl.evaluation.measures.preference import MOST_GROUPS, breakdown
from rl.models import Feedback, Trace

pytestmark = pytest.mark.django_db


def feedback_with(agent, number: int, tags: object, scenario: object = None) -> int:
    trace = Trace.objects.create(
        agent=agent, prompt=[], response="", details={"scenario": scenario} if scenario else {}
    )
    kind = Feedback.Kind.RATING
    return Feedback.objects.create(agent=agent, trace=trace, kind=kind, rater=f"r{number}", value=1.0, tags=tags).pk


def scores(*right: bool) -> dict[str, list[PairScore]]:
    new = [PairScore(f"p{number}", 1.0 if is_right else -1.0, 0.0) for number, is_right in enumerate(right)]
    return {"new": new, "base": [PairScore(score.prompt_key, -1.0, 0.0) for score in new]}


@pytest.mark.database
def test_a_pair_counts_in_each_group_of_the_feedback_behind_it(agent):
    rows = [
        {
            "feedback": [
                feedback_with(agent, 1, ["tone", "length"], "weather"),
                feedback_with(agent, 2, ["tone"], "news"),
            ]
        },
        {"feedback": [feedback_with(agent, 3, ["tone"])]},
        {"feedback": []},
        {"feedback": [10**9]},
    ]
    parts = breakdown(rows, scores(True, False, True, True))
    assert [(group["name"], group["pairs"], group["prompts"]) for group in parts["tags"]] == [
        ("tone", 2, 2),
        ("length", 1, 1),
    ]
    assert parts["tags"][0]["models"]["new"]["value"] == 0.5
    assert parts["tags"][0]["models"]["base"]["value"] == 0
    assert [group["name"] for group in parts["scenarios"]] == ["news", "weather"]


@pytest.mark.parametrize("tags", [{}, "tone", [3, None, ""]])
def test_tags_that_are_none_are_passed_over(agent, tags):
    parts = breakdown([{"feedback": [feedback_with(agent, 1, tags, 7)]}, {}], scores(True, True))
    assert parts == {"tags": [], "scenarios": []}


def test_only_the_largest_groups_are_told(agent):
    rows = [{"feedback": [feedback_with(agent, number, [f"tag {number:02}", "all"])]} for number in range(30)]
    parts = breakdown(rows, scores(*[True] * 30))
    assert len(parts["tags"]) == MOST_GROUPS
    assert parts["tags"][0]["name"] == "all"
