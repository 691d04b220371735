from __future__ import annotations

import pytest

from rl.dataset_builder.plan.answers import NAMED, accepted_plan
from rl.models import Agent
from tests.dataset_builder.ratings import rated

pytestmark = pytest.mark.django_db


def test_classes_with_few_answers_are_named_the_rarest_first(agent: Agent):
    for name, count in (("cards", 12), ("cash", 4), ("identity", 2)):
        for number in range(count):
            rated(agent, f"{name} {number}?", name.title(), 1)
    plan = accepted_plan(agent)
    assert plan.sentences == [
        "answers are closed: 18 accepted answers are 3 distinct ones",
        "2 of `identity`: 8 more would help",
        "4 of `cash`: 6 more would help",
    ]


def test_the_list_is_bounded(agent: Agent):
    for name in range(NAMED + 3):
        for number in range(2):
            rated(agent, f"{name} {number}?", f"class {name}", 1)
    plan = accepted_plan(agent)
    assert (len(plan.rare), plan.unnamed) == (NAMED, 3)
    assert plan.sentences[-1] == "3 more classes with fewer than 10"


def test_free_answers_have_no_classes(agent: Agent):
    for number in range(12):
        rated(agent, f"Question {number}?", f"Answer number {number}.", 1)
    assert accepted_plan(agent).sentences == ["answers are free: 12 of 12 accepted answers are distinct"]
    assert accepted_plan(agent).as_dict()["rare"] == []
