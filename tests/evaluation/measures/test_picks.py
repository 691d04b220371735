"""People's picks between answers of two versions."""

from __future__ import annotations

import pytest

from rl.evaluation.measures.picks import count_picks
from rl.models import Agent, Feedback, ModelVersion, Trace
from rl.models.traces import GATEWAY

pytestmark = pytest.mark.django_db


@pytest.fixture
def versions(agent) -> tuple[ModelVersion, ModelVersion]:
    old, new = (
        ModelVersion.objects.create(agent=agent, name=name, base_model="tiny", feedback_count=1)
        for name in ("v1", "v2")
    )
    return new, old


def trace(agent: Agent, version: ModelVersion | None, key: str, **more) -> Trace:
    return Trace.objects.create(
        agent=agent, model_version=version, prompt=[], prompt_key=key, response="Yes.", source=GATEWAY, **more
    )


def pick(agent: Agent, left: Trace, right: Trace, choice: str) -> Feedback:
    return Feedback.objects.create(
        agent=agent, trace=left, other_trace=right, choice=choice, kind=Feedback.Kind.COMPARISON, rater="alice"
    )


def test_the_side_on_which_an_answer_stood_does_not_matter(agent, versions):
    new, old = versions
    pick(agent, trace(agent, new, "q1"), trace(agent, old, "q1"), "left")
    pick(agent, trace(agent, old, "q2"), trace(agent, new, "q2"), "right")
    pick(agent, trace(agent, old, "q3"), trace(agent, new, "q3"), "left")
    counted = count_picks(agent, new, old)
    assert counted
    assert (counted.picks, sorted(counted.shares)) == (3, [0, 1, 1])


def test_a_tie_is_half_and_the_picks_of_a_prompt_are_one(agent, versions):
    new, old = versions
    for choice in ("left", "tie", "both_bad", "left"):
        pick(agent, trace(agent, new, "q1"), trace(agent, old, "q1"), choice)
    counted = count_picks(agent, new, old)
    assert counted
    assert (counted.picks, counted.shares) == (4, (0.75,))


@pytest.mark.database
def test_only_current_picks_between_the_two_versions_count(agent, versions):
    new, old = versions
    other = ModelVersion.objects.create(agent=agent, name="v3", base_model="tiny", feedback_count=1)
    pick(agent, trace(agent, new, "q1"), trace(agent, other, "q1"), "left")
    withdrawn = pick(agent, trace(agent, new, "q1"), trace(agent, old, "q1"), "left")
    Feedback.objects.filter(pk=withdrawn.pk).update(is_current=False)
    assert count_picks(agent, new, old) is None


@pytest.mark.database
def test_an_answer_without_a_version_is_the_base_models_only_if_the_gateway_fetched_it(agent, versions):
    new, _ = versions
    pick(agent, trace(agent, new, "q1"), trace(agent, None, "q1"), "left")
    unknown = trace(agent, None, "q2")
    Trace.objects.filter(pk=unknown.pk).update(source="api")
    pick(agent, trace(agent, new, "q2"), unknown, "left")
    pick(agent, trace(agent, new, "q3"), trace(agent, None, "q3", details={"model_version": "v9"}), "left")
    counted = count_picks(agent, new, None)
    assert counted
    assert counted.picks == 1
