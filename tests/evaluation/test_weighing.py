"""Which evidence decides."""

from __future__ import annotations

from typing import Any

import pytest

from rl.base.measurements import Interval
from rl.evaluation.gate import Verdict
from rl.evaluation.judges import Judged
from rl.evaluation.measures.fresh import Unheard, check, estimate
from rl.evaluation.preferring import Picks, Terms, count_picks, weigh
from rl.evaluation.stats.budget import at_look
from rl.models import Agent, Feedback, ModelVersion, Trace
from rl.models.traces import GATEWAY
from tests.evaluation.measures.test_fresh import contrasts_of

MARGINS = Verdict("undecided", Interval(0.0, -0.1, 0.1), 90, "No difference between the two versions.")
SHOWN: dict[str, Any] = {"difference": {"value": 0.0, "low": -0.1, "high": 0.1}, "pairs": 9, "prompts": 9}


def terms(look: int = 1) -> Terms:
    return Terms(at_look(look), 0.0, 0.3, 100)


def fresh(share: float, right: int = 36, prompts: int = 40):
    keys = [f"q{n}" for n in range(40)]
    judged = Judged([(key, [0.8 if n < right else 0.2] * 2) for n, key in enumerate(keys)], [], 40)
    judge = check("a judge", judged, contrasts_of(keys))
    assert judge
    spread = [min(0.98, max(0.02, share + (number % 5 - 2) / 20)) for number in range(prompts)]
    texts = [(f"new {number}", f"old {number}") for number in range(prompts)]
    return estimate(judge, [[value, value] for value in spread], texts)


def picks(won: int, of: int) -> Picks:
    return Picks(tuple([1.0] * won + [0.0] * (of - won)), of)


def test_people_outweigh_the_judge_and_the_judge_outweighs_margins():
    everything = weigh(picks(27, 30), fresh(0.2), MARGINS, SHOWN, terms())
    assert (everything.report["decided_by"], everything.verdict.decision) == ("picks", "promote")
    assert [part["kind"] for part in everything.report["evidence"]] == ["picks", "fresh", "margins"]
    judged = weigh(None, fresh(0.2), MARGINS, SHOWN, terms())
    assert (judged.report["decided_by"], judged.verdict.decision) == ("fresh", "reject")
    ranked = weigh(None, None, MARGINS, SHOWN, terms())
    assert (ranked.report["decided_by"], ranked.verdict) == ("margins", MARGINS)


def test_a_few_picks_are_shown_and_decide_nothing():
    weighed = weigh(picks(19, 19), fresh(0.5), MARGINS, SHOWN, terms())
    assert weighed.report["decided_by"] == "fresh"
    assert weighed.report["evidence"][0]["share"]["value"] == 1


def test_a_judge_no_better_than_chance_decides_nothing_and_says_so():
    weighed = weigh(None, fresh(0.9, right=21), MARGINS, SHOWN, terms())
    assert weighed.report["decided_by"] == "margins"
    assert weighed.report["evidence"][0]["judge"]["beats_chance"] is False


def test_a_judge_that_could_not_be_asked_leaves_it_open_unless_people_have_picked():
    better = Verdict("promote", Interval(0.2, 0.1, 0.3), None, "The new version is better.")
    weighed = weigh(None, Unheard("judge careful cannot be asked (HTTP 401)"), better, SHOWN, terms())
    assert (weighed.report["decided_by"], weighed.verdict.decision) == ("fresh", "undecided")
    assert weighed.verdict.reason.startswith("Fresh answers could not be compared: judge careful cannot be asked")
    assert weigh(picks(27, 30), Unheard("gone"), better, SHOWN, terms()).verdict.decision == "promote"


@pytest.mark.parametrize(("share", "decision"), [(0.75, "promote"), (0.5, "undecided"), (0.2, "reject")])
def test_better_unchanged_and_worse_get_three_verdicts(share, decision):
    verdict = weigh(None, fresh(share), MARGINS, SHOWN, terms()).verdict
    assert verdict.decision == decision
    assert "which agrees with people on 90% of 40 prompts (the longer answer: 25%)" in verdict.reason
    assert verdict.reason.count(". ") == 1


def test_a_share_is_written_as_people_say_it():
    reason = weigh(picks(27, 30), None, MARGINS, SHOWN, terms()).verdict.reason
    assert reason.startswith(
        "The new version is better: 90.0% of answers preferred on 30 prompts, 95% interval 74.4% to 96.5%; look 1 needs 97%"
    )
    assert reason.endswith("Evidence: people picked between answers of both 30 times.")


def test_a_late_look_asks_for_more_than_an_early_one():
    share = 0.56
    early, late = (weigh(None, fresh(share, prompts=30), MARGINS, SHOWN, terms(look)).verdict for look in (1, 150))
    assert early.decision == "promote"
    assert late.decision == "undecided" or late.difference == early.difference


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
