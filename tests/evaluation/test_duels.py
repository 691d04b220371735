"""Which duels the gate makes, and what people are told about them."""

from statistics import fmean

import pytest

from rl.base.records import GeneratedAnswer
from rl.evaluation.duels import (
    Given,
    Picks,
    Sides,
    end_duels,
    is_over,
    judge_picks,
    make_duels,
    stake_of,
    what_decides,
)
from rl.evaluation.stats.budget import FIRST_STAKE, LATER_STAKES, TOTAL
from rl.models import Agent, AnswerPair, Deployment, Evaluation, Feedback, ModelVersion, Trace
from rl.models.traces import DUEL
from tests.admin.records import make_evaluation, make_training_set, make_version
from tests.conftest import make_trace

SIDES = Sides("v2", "v1")


def picks(*shares: float) -> Picks:
    return Picks(shares, len(shares))


def told(*shares: float, margin: float = 0.0) -> tuple[str, str]:
    verdict = judge_picks(picks(*shares), FIRST_STAKE, margin, SIDES)
    return verdict.decision, verdict.reason


def test_before_the_first_pick_people_are_told_how_many_it_takes():
    assert what_decides(picks(), FIRST_STAKE, 0.0, SIDES) == (
        "Nobody has picked yet: it takes about 64 picks of all people together if v2 is clearly better (73 of 100 picks are "
        "for it), and more than 160 if it is a little better (65 of 100 picks are for it)"
    )


def test_then_how_many_more_at_least_and_never_a_number_scaled_up():
    assert what_decides(picks(*[1.0] * 14, *[0.0] * 4, 0.5, 0.5), FIRST_STAKE, 0.0, SIDES) == (
        "Not decided yet: 14 for v2, 4 for v1, 2 ties; at least 5 more picks are needed, and more still if any is for v1"
    )


def test_votes_of_several_people_on_one_prompt_are_one_for_the_side_that_has_more():
    assert picks(2 / 3, 1 / 3, 0.5).in_words(*SIDES) == "1 for v2, 1 for v1, 1 tie"


def test_picks_decide_for_the_new_version_for_the_other_and_for_neither():
    decision, reason = told(*[1.0] * 19, *[0.0] * 2)
    assert (decision, "People prefer v2: " in reason, "19 for v2, 2 for v1" in reason) == ("promote", True, True)
    decision, reason = told(*[1.0] * 2, *[0.0] * 19)
    assert (decision, reason.startswith("People prefer v1: 2 for v2, 19 for v1. v1 stays in use.")) == ("reject", True)
    decision, reason = told(*[1.0, 0.0] * 80)
    assert decision == "undecided"
    assert reason.startswith(
        "v2 is not clearly better: 80 for v2, 80 for v1. Nobody is asked any more, and v1 stays in use."
    )
    assert "50% (38% to 62%) of picks are for v2" in reason
    assert told(*[1.0] * 3)[0] == "undecided"


def test_with_a_margin_a_version_that_is_as_good_is_promoted_after_many_picks():
    even = [1.0, 0.0] * 80
    assert told(*even)[0] == "undecided"
    decision, reason = told(*even, margin=0.2)
    assert decision == "promote"
    assert reason.startswith(
        "v2 is good enough, as the agent's settings allow a loss of 20 points: 80 for v2, 80 for v1."
    )


def test_nobody_is_asked_further_about_a_version_that_loses_or_after_a_hundred_and_sixty_prompts():
    assert is_over(picks(*[0.0] * 6, 1.0), 0.0)
    assert is_over(picks(*[0.5] * 160), 0.0)
    assert not is_over(picks(*[0.5] * 159), 0.0)
    assert not is_over(picks(0.0, 1.0), 0.0)


pytestmark = pytest.mark.django_db


@pytest.fixture
def evaluation(agent: Agent) -> Evaluation:
    """Of v2, which is undecided, against v1, which is in use."""
    first, second = make_version(agent, "v1"), make_version(agent, "v2")
    Deployment.promote(first)
    return make_evaluation(second, make_training_set(agent), verdict="undecided", against=first)


def given(trace: Trace, new: str, other: str, most: int = 9) -> Given:
    return Given(trace.prompt_key, GeneratedAnswer(new, 4, len(new.split())), GeneratedAnswer(other, 4, 1), most)


def test_both_answers_are_kept_as_theirs_to_the_prompt_as_it_was_asked(evaluation: Evaluation, agent: Agent):
    asked = make_trace(agent)
    assert make_duels(evaluation, [given(asked, "In the fridge.", "Eat it.")]) == 1
    pair = AnswerPair.objects.get()
    assert (pair.left.prompt, pair.right.prompt) == (asked.prompt, asked.prompt)
    assert {trace.model_version.name: trace.response for trace in (pair.left, pair.right)} == {
        "v2": "In the fridge.",
        "v1": "Eat it.",
    }
    assert (pair.version.name, pair.left.source) == ("v2", DUEL)


def test_answers_that_were_cut_off_are_no_examples_to_learn_from(evaluation: Evaluation, agent: Agent):
    make_duels(evaluation, [given(make_trace(agent), "In the fridge", "Eat it.", most=3)])
    assert AnswerPair.objects.get().left.details == {"finish_reason": "length"}
    assert AnswerPair.objects.get().right.details == {}


@pytest.mark.parametrize(("new", "other"), [("Same.", " Same."), ("", "Words."), ("Words.", "  ")])
def test_nobody_is_asked_about_equal_answers_or_empty_ones(evaluation: Evaluation, agent: Agent, new: str, other: str):
    assert make_duels(evaluation, [given(make_trace(agent), new, other)]) == 0


def test_a_prompt_that_is_stored_nowhere_makes_none(evaluation: Evaluation):
    answers = GeneratedAnswer("a", 1, 1), GeneratedAnswer("b", 1, 1)
    assert make_duels(evaluation, [Given("0" * 64, *answers, 9)]) == 0


def test_a_prompt_with_tools_makes_none(evaluation: Evaluation, agent: Agent):
    asked = make_trace(agent, details={"tools": [{"type": "function"}]})
    assert make_duels(evaluation, [given(asked, "a", "b")]) == 0


@pytest.mark.parametrize("change", ["decided", "rejected", "overtaken", "in use"])
def test_only_of_a_version_that_waits(evaluation: Evaluation, agent: Agent, change: str):
    if change == "decided":
        evaluation.verdict = "promote"
    elif change == "rejected":
        evaluation.version.stage = ModelVersion.Stage.REJECTED
    else:
        Deployment.promote(make_version(agent, "v3") if change == "overtaken" else evaluation.version)
    assert make_duels(evaluation, [given(make_trace(agent), "a", "b")]) == 0


@pytest.mark.database
def test_those_of_the_next_version_take_the_place_of_those_that_nobody_decided(evaluation: Evaluation, agent: Agent):
    traces = [make_trace(agent, number) for number in range(3)]
    assert make_duels(evaluation, [given(trace, "a", "b") for trace in traces]) == 3
    decided = AnswerPair.objects.all()[0]
    kind = Feedback.Kind.COMPARISON
    Feedback.objects.create(
        agent=agent, trace=decided.left, other_trace=decided.right, choice="left", kind=kind, rater="alice"
    )
    third = make_evaluation(make_version(agent, "v3"), evaluation.training_set, verdict="undecided")
    third.against = evaluation.against
    assert make_duels(third, [given(traces[0], "c", "b")]) == 1
    assert set(AnswerPair.objects.values_list("version__name", flat=True)) == {"v2", "v3"}
    assert [pair.version.name for pair in AnswerPair.find_open(AnswerPair.Origin.DUEL, agent=agent)] == ["v3"]
    assert Trace.objects.filter(source=DUEL).count() == 4
    end_duels(agent=agent)
    assert set(AnswerPair.objects.all()) == {decided}


def test_measured_again_a_version_is_not_asked_about_at_prompts_that_were_decided(evaluation: Evaluation, agent: Agent):
    traces = [make_trace(agent, number) for number in range(2)]
    make_duels(evaluation, [given(traces[0], "a", "b")])
    pair = AnswerPair.objects.get()
    kind = Feedback.Kind.COMPARISON
    Feedback.objects.create(agent=agent, trace=pair.left, other_trace=pair.right, choice="left", kind=kind, rater="al")
    assert make_duels(evaluation, [given(trace, "a", "b") for trace in traces]) == 1


def answer(agent: Agent, choice: str, number: int) -> None:
    """So many open duels; the new version's answer stands on the left."""
    for pair in list(AnswerPair.find_open(AnswerPair.Origin.DUEL, agent=agent))[:number]:
        pick = {"kind": Feedback.Kind.COMPARISON, "choice": choice, "rater": "alice"}
        Feedback.objects.create(agent=agent, trace=pair.left, other_trace=pair.right, **pick)


@pytest.mark.database
def test_what_a_version_has_not_lost_is_there_for_the_next_one_and_no_more_than_its_stake(
    evaluation: Evaluation, agent: Agent
):
    asked = [given(make_trace(agent, number), "a", "b") for number in range(3)]
    third, fourth = (
        make_evaluation(make_version(agent, name), evaluation.training_set, verdict="undecided")
        for name in ("v3", "v4")
    )
    third.against = fourth.against = evaluation.against
    for of in (third, fourth):
        of.save()
    assert stake_of(evaluation.version, evaluation.against) == FIRST_STAKE
    make_duels(evaluation, asked)
    answer(agent, "right", 3)
    evidence = fmean((1 - c / 100) ** 3 for c in range(5, 70, 5))
    left = TOTAL - FIRST_STAKE * (1 - evidence)
    assert stake_of(third.version, third.against) == pytest.approx(LATER_STAKES * left)
    make_duels(third, asked)
    answer(agent, "left", 3)
    assert stake_of(fourth.version, fourth.against) == pytest.approx(LATER_STAKES * left), (
        "its luck pays for nobody else"
    )
    assert stake_of(evaluation.version, evaluation.against) == FIRST_STAKE, "fixed when people were first asked"
    assert stake_of(third.version, None) == FIRST_STAKE, "against another version in use everything starts anew"


def test_a_version_that_nobody_was_asked_about_has_spent_nothing(evaluation: Evaluation, agent: Agent):
    assert make_duels(evaluation, [given(make_trace(agent), "a", "a")]) == 0
    assert stake_of(make_version(agent, "v3"), evaluation.against) == FIRST_STAKE


def test_measured_again_a_version_keeps_its_stake(evaluation: Evaluation, agent: Agent):
    make_duels(evaluation, [given(make_trace(agent), "a", "b")])
    again = make_evaluation(
        evaluation.version, evaluation.training_set, verdict="undecided", against=evaluation.against
    )
    make_duels(again, [given(make_trace(agent, "Other?"), "a", "b")])
    assert again.report["stake"] == FIRST_STAKE
