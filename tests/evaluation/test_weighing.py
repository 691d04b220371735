"""Which evidence decides."""

from dataclasses import replace
from typing import Any

import pytest

from rl.evaluation.duels import Picks, count_picks
from rl.evaluation.judges import Judged
from rl.evaluation.measures.fresh import Fresh, Unheard, check, estimate
from rl.evaluation.preferring import Terms, weigh
from rl.evaluation.stats.budget import at_look
from rl.models import Agent, Feedback, ModelVersion, Trace
from rl.models.queues import NOT_BLIND
from rl.models.traces import DUEL, GATEWAY
from tests.evaluation.measures.test_fresh import contrasts_of

MARGINS: dict[str, Any] = {"difference": {"value": 0.0, "low": -0.1, "high": 0.1}, "pairs": 9, "prompts": 9}


def terms(look: int = 1, margin: float = 0.0, judge_decides: bool = True) -> Terms:
    return Terms(at_look(look), margin, judge_decides=judge_decides)


def fresh(share: float, right: int = 36, prompts: int = 40) -> Fresh:
    """``right``: of 40 labels at which the judge agrees with people."""
    keys = [f"q{n}" for n in range(40)]
    judged = Judged([(key, 0.8 if n < right else 0.2) for n, key in enumerate(keys)], [], 40)
    judge = check("a judge", judged, contrasts_of(keys))
    assert judge
    texts = [(f"new {number}", f"old {number}") for number in range(prompts)]
    return estimate(judge, [0.9 if number < share * prompts else 0.1 for number in range(prompts)], texts)


def picks(won: int, of: int) -> Picks:
    return Picks(tuple([1.0] * won + [0.0] * (of - won)), of)


def test_people_outweigh_the_judge_and_margins_decide_nothing():
    everything = weigh(picks(27, 30), fresh(0.1), MARGINS, terms())
    assert (everything.report["decided_by"], everything.verdict.decision) == ("picks", "promote")
    assert [part["kind"] for part in everything.report["evidence"]] == ["picks", "fresh", "margins"]
    judged = weigh(None, fresh(0.1), MARGINS, terms())
    assert (judged.report["decided_by"], judged.verdict.decision) == ("fresh", "reject")
    ranked = weigh(None, None, MARGINS, terms())
    assert (ranked.report["decided_by"], ranked.verdict.decision) == ("", "undecided")
    assert "people have to pick" in ranked.verdict.reason


def test_a_few_picks_are_shown_and_decide_nothing():
    weighed = weigh(picks(19, 19), fresh(0.5), MARGINS, terms())
    assert weighed.report["decided_by"] == "fresh"
    assert weighed.report["evidence"][0]["share"]["value"] == 1


def test_a_judge_no_better_than_chance_decides_nothing_and_says_so():
    weighed = weigh(None, fresh(0.9, right=21), MARGINS, terms())
    assert (weighed.report["decided_by"], weighed.verdict.decision) == ("", "undecided")
    assert weighed.report["evidence"][0]["judge"]["beats_chance"] is False


def test_a_judge_that_could_not_be_asked_leaves_it_open_unless_people_have_picked():
    weighed = weigh(None, Unheard("judge careful cannot be asked (HTTP 401)"), MARGINS, terms())
    assert (weighed.report["decided_by"], weighed.verdict.decision) == ("fresh", "undecided")
    assert weighed.verdict.reason.startswith("Fresh answers could not be compared: judge careful cannot be asked")
    assert weigh(picks(27, 30), Unheard("gone"), MARGINS, terms()).verdict.decision == "promote"


@pytest.mark.parametrize(("share", "decision"), [(0.95, "promote"), (0.75, "undecided"), (0.25, "reject")])
def test_a_judge_promotes_only_if_it_would_be_right_with_all_its_errors_on_one_side(share: float, decision: str):
    verdict = weigh(None, fresh(share), MARGINS, terms()).verdict
    assert verdict.decision == decision
    assert "agrees with people on 90% of 40 prompts (always taking the longer answer: 25%)" in verdict.reason


def test_the_worst_case_is_the_low_end_of_the_share_less_what_the_judge_may_miss():
    judged = fresh(0.95)
    # by hand, Wilson at 95 %: 38 of 40 is 83.5 % or more, 36 of 40 is 76.9 % or more
    assert judged.worst_case(0.95) == pytest.approx(0.835 - (1 - 0.769), abs=0.001)
    # 1.96 times the root of 0.95 0.05 / 40 + 0.09^2
    assert judged.forecast.value - judged.forecast.low == pytest.approx(0.189, abs=0.001)


def test_where_picks_alone_decide_a_judge_that_is_sure_promotes_nothing():
    verdict = weigh(None, fresh(1), MARGINS, terms(judge_decides=False)).verdict
    assert (verdict.decision, verdict.reason.startswith("Perhaps better, and people have to pick")) == (
        "undecided",
        True,
    )
    assert weigh(None, fresh(0.1), MARGINS, terms(judge_decides=False)).verdict.decision == "reject"


def test_a_verdict_by_picks_is_written_as_people_say_it():
    reason = weigh(picks(27, 30), None, MARGINS, terms()).verdict.reason
    assert reason == (
        "People prefer the new version: 27 for the new version, 3 for the version in use. It goes into use. In figures: 90% "
        "(66% to 99%) of picks are for the new version; the odds against luck are 6,127 to 1, and 77 to 1 are enough."
    )


def test_a_small_stake_asks_for_more_than_a_large_one():
    early, late = (weigh(picks(21, 25), None, MARGINS, replace(terms(), stake=of)) for of in (0.01, 0.0001))
    assert (early.verdict.decision, late.verdict.decision) == ("promote", "undecided")
    assert "at least" in late.verdict.reason
    assert (early.report["stake"], late.report["stake"]) == (0.01, 0.0001)


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


def pick(agent: Agent, left: Trace, right: Trace, choice: str, **more) -> Feedback:
    return Feedback.objects.create(
        agent=agent, trace=left, other_trace=right, choice=choice, kind=Feedback.Kind.COMPARISON, rater="alice", **more
    )


def test_the_side_on_which_an_answer_stood_does_not_matter(agent, versions):
    new, old = versions
    pick(agent, trace(agent, new, "q1"), trace(agent, old, "q1"), "left")
    pick(agent, trace(agent, old, "q2"), trace(agent, new, "q2"), "right")
    pick(agent, trace(agent, old, "q3"), trace(agent, new, "q3"), "left")
    counted = count_picks(agent, new, old)
    assert (counted.picks, sorted(counted.shares)) == (3, [0, 1, 1])


def test_a_tie_is_half_and_the_picks_of_a_prompt_are_one(agent, versions):
    new, old = versions
    for choice in ("left", "tie", "both_bad", "left"):
        pick(agent, trace(agent, new, "q1"), trace(agent, old, "q1"), choice)
    counted = count_picks(agent, new, old)
    assert (counted.picks, counted.shares) == (4, (0.75,))


@pytest.mark.database
def test_only_current_picks_between_the_two_versions_count(agent, versions):
    new, old = versions
    other = ModelVersion.objects.create(agent=agent, name="v3", base_model="tiny", feedback_count=1)
    pick(agent, trace(agent, new, "q1"), trace(agent, other, "q1"), "left")
    withdrawn = pick(agent, trace(agent, new, "q1"), trace(agent, old, "q1"), "left")
    Feedback.objects.filter(pk=withdrawn.pk).update(is_current=False)
    assert count_picks(agent, new, old).picks == 0


@pytest.mark.database
def test_an_answer_without_a_version_is_the_base_models_only_if_the_gateway_fetched_it(agent, versions):
    new, _ = versions
    pick(agent, trace(agent, new, "q1"), trace(agent, None, "q1"), "left")
    unknown = trace(agent, None, "q2")
    Trace.objects.filter(pk=unknown.pk).update(source="api")
    pick(agent, trace(agent, new, "q2"), unknown, "left")
    pick(agent, trace(agent, new, "q3"), trace(agent, None, "q3", details={"model_version": "v9"}), "left")
    counted = count_picks(agent, new, None)
    assert counted.picks == 1


def test_picks_of_people_who_knew_whose_the_answers_were_do_not_count(agent, versions):
    new, old = versions
    pick(agent, trace(agent, new, "q1"), trace(agent, old, "q1"), "left", tags=[NOT_BLIND])
    assert count_picks(agent, new, old).picks == 0


def test_answers_that_the_gate_asked_of_the_base_model_count_as_its_own(agent, versions):
    new, _ = versions
    asked = trace(agent, None, "q1")
    Trace.objects.filter(pk=asked.pk).update(source=DUEL)
    pick(agent, trace(agent, new, "q1"), asked, "left")
    assert count_picks(agent, new, None).shares == (1.0,)
