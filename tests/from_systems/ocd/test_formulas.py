"""OCD's formulas, by examples that were worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.base.records import FeedbackRecord, TraceRecord
from rl.collect.traces.imported import ImportedTrace
from rl.collect.traces.write import TraceStore
from rl.dataset_builder import DataOptions, freeze
from rl.from_systems.ocd.formulas import expected_minutes
from rl.from_systems.ocd.records import read_decision
from rl.models import Agent
from rl.rewards import DecisionReward, FeedbackReward, RewardEngine
from rl.rewards.decision import LIMIT
from rl.scoring import stored as rewarding
from tests.dataset_builder.ratings import all_rows
from tests.rewards.records import record


def trace_of(agent_type: str, **fields: Any) -> TraceRecord:
    """As it is after the record was read and stored."""
    read = read_decision({"agentType": agent_type, "state": {"title": "x"}, "action": {"a": 1}, **fields}, "line 1")
    assert isinstance(read, ImportedTrace), read
    feedback = [
        FeedbackRecord(
            kind=said.kind,
            rater=said.rater,
            tags=said.tags,
            metric=said.metric,
            text=said.text,
            value=said.value if said.kind == "rating" else None,
            raw_value=said.value,
        )
        for said in read.feedback
    ]
    return replace(record(details=read.details, feedback=tuple(feedback)), agent=read.agent, action=read.action)


def raw(agent_type: str, **fields: Any) -> float:
    """OCD's reward, -5 to 5."""
    reward: float = DecisionReward().compute(trace_of(agent_type, **fields)).details["reward"]
    return reward


# --- FILER ------------------------------------------------------------------------------------------------------------

PROJECT = {"swimlane": "PROJECT", "priority": "MEDIUM"}
DONE = {"completedSuccessfully": True, "cycleCount": 0, "totalTimeInCreate": 100}


def test_a_confirmed_project_that_was_done_in_time():
    """1 - 0.1 * 0.1 + 0.5 * 1 + 0.3 * 0.5."""
    confirmed = raw("FILER", action=PROJECT, userFeedback="CONFIRMED", confidence=0.9, outcomeMetrics=DONE)
    assert confirmed == pytest.approx(1.64)


@pytest.mark.parametrize(("word", "reward"), [("CONFIRMED", 1.0), ("CORRECTED", -0.5), ("OVERRIDDEN", -0.8)])
def test_the_word_is_one_component(word: str, reward: float):
    assert raw("FILER", userFeedback=word) == reward


@pytest.mark.parametrize(
    ("word", "confidence", "calibration"),
    [
        ("CONFIRMED", 1.0, 0.0),
        ("CONFIRMED", 0.4, -0.6),
        ("CORRECTED", 0.7, -0.7),
        ("OVERRIDDEN", 1.0, -1.0),
        ("IGNORED", 0.8, -0.8),
    ],
)
def test_confidence_costs_what_it_was_off_by_also_where_the_decision_was_ignored(word, confidence, calibration):
    assert raw("FILER", userFeedback=word, confidence=confidence) == pytest.approx(
        raw("FILER", userFeedback=word) + 0.1 * calibration
    )


def test_without_a_word_nothing_is_calibrated():
    assert raw("FILER", confidence=0.9, outcomeMetrics={"cycleCount": 1}) == pytest.approx(-0.2 * 0.2)


@pytest.mark.parametrize(
    ("outcomes", "reward"),
    [
        ({"completedSuccessfully": True}, 0.5),
        ({"completedSuccessfully": True, "cycleCount": 2}, 0.5 * 0.5 - 0.2 * 0.4),
        ({"completedSuccessfully": False, "abandoned": True}, -0.3 * 0.5),
        ({"completedSuccessfully": False}, 0.0),
        ({"wasBlocked": True}, -0.3),
        ({"blockedAt": "2026-02-01T12:00:00Z"}, -0.3),
        ({"blockedAt": "2026-02-01T12:00:00Z", "wasBlocked": False}, 0.0),
        ({"cycleCount": 3}, -0.2 * 0.6),
        ({"goalAlignment": 0.5}, 0.4 * 0.5),
        ({"opportunityCost": 1, "strategicAlignment": 1}, 0.0),
    ],
)
def test_what_became_of_the_item(outcomes: dict[str, Any], reward: float):
    assert raw("FILER", outcomeMetrics=outcomes) == pytest.approx(reward)


@pytest.mark.parametrize(("status", "reward"), [("DONE", 0.5), ("COLD_STORAGE", -0.15), ("done", 0.5)])
def test_the_item_of_a_record_says_how_it_ended(status: str, reward: float):
    assert raw("FILER", item={"id": "i", "title": "t", "status": status}) == pytest.approx(reward)


@pytest.mark.parametrize(
    ("outcomes", "component"),
    [
        ({"totalTimeInCreate": 575}, 0.5),  # 1.198 of 480
        ({"totalTimeInCreate": 576}, 0.0),
        ({"totalTimeInCreate": 960}, 0.0),
        ({"totalTimeInCreate": 961}, -0.5),
        ({"timeEfficiency": 1.6}, 0.5),  # expected / actual: it took 0.625 of the time
        ({"timeEfficiency": 0.4}, -0.5),  # it took 2.5 times as long
        ({"timeEfficiency": 0.6}, 0.0),
        ({"timeEfficiency": 0.4, "totalTimeInCreate": 100}, 0.5),  # minutes go before a ratio
        ({"totalTimeInCreate": 0}, 0.0),
    ],
)
def test_time_counts_against_what_was_expected_once_it_is_done(outcomes: dict[str, Any], component: float):
    done = {"completedSuccessfully": True, **outcomes}
    assert raw("FILER", action=PROJECT, outcomeMetrics=done) == pytest.approx(0.5 + 0.3 * component)
    assert raw("FILER", action=PROJECT, outcomeMetrics=outcomes) == 0.0


@pytest.mark.parametrize(
    ("action", "minutes"),
    [
        ({"swimlane": "EXPEDITE", "priority": "HIGH"}, 96),
        ({"swimlane": "Habit", "priority": "low"}, 72),
        ({"swimlane": "HOME"}, 180),
        ({"swimlane": "PROJECT", "priority": "MEDIUM"}, 480),
        ({"priority": "LOW"}, 576),
        ({}, 480),
        ("wait", 480),
    ],
)
def test_the_expected_time_is_that_of_lane_and_priority(action: Any, minutes: float):
    assert expected_minutes(action) == pytest.approx(minutes)


def test_the_time_is_that_of_the_lane_that_the_person_chose():
    done = {"completedSuccessfully": True, "totalTimeInCreate": 300}
    filed = raw("FILER", action={"swimlane": "HABIT"}, outcomeMetrics=done)
    moved = raw("FILER", action={"swimlane": "HABIT"}, outcomeMetrics=done, userCorrection={"swimlane": "PROJECT"})
    assert (filed, moved) == pytest.approx((0.5 - 0.15, 0.5 + 0.15))


# --- the others -------------------------------------------------------------------------------------------------------


def test_a_librarian_that_was_corrected_for_a_false_alarm():
    assert raw("LIBRARIAN", userFeedback="CORRECTED", outcomeMetrics={"falsePositive": True}) == pytest.approx(-0.75)


@pytest.mark.parametrize(
    ("metric", "reward"),
    [("conflictPrevented", 2.0), ("falsePositive", -0.25), ("missedIssue", -2.0), ("dependencyWasReal", 0.25)],
)
def test_what_became_of_a_librarians_finding(metric: str, reward: float):
    assert raw("LIBRARIAN", outcomeMetrics={metric: True}) == pytest.approx(reward)
    assert raw("LIBRARIAN", outcomeMetrics={metric: False}) == 0.0


def test_a_recommendation_that_was_taken_and_done_in_time():
    outcomes = {"completedSuccessfully": True, "timeEfficiency": 1.6}
    assert raw("PRIORITIZER", userFeedback="CONFIRMED", outcomeMetrics=outcomes) == pytest.approx(2.25)


def test_a_recommendation_that_took_much_longer_earns_nothing_for_its_time():
    outcomes = {"completedSuccessfully": True, "timeEfficiency": 0.2}
    assert raw("PRIORITIZER", userFeedback="CONFIRMED", outcomeMetrics=outcomes) == pytest.approx(2.0)


@pytest.mark.parametrize(("word", "reward"), [("CORRECTED", -0.5), ("OVERRIDDEN", 0.0), ("IGNORED", 0.0)])
@pytest.mark.parametrize("agent_type", ["PRIORITIZER", "STORER"])
def test_acceptance_knows_two_words(agent_type: str, word: str, reward: float):
    assert raw(agent_type, userFeedback=word) == reward


@pytest.mark.parametrize(
    ("metric", "reward"),
    [
        ("strategicProgress", 0.8 * 0.3 * 2),
        ("opportunityCost", 0.3 * -0.2 * 2),
        ("energyAlignment", 0.2 * 0.2 * 2),
        ("flowMaintenance", 0.2 * 0.2 * 2),
    ],
)
def test_measured_progress_counts_as_it_is(metric: str, reward: float):
    assert raw("PRIORITIZER", outcomeMetrics={metric: 2}) == pytest.approx(reward)


def test_an_edited_text_costs_a_storer_its_share_of_the_actions_fields():
    action = {"integrationDecision": "APPEND", "location": "notes", "suggestedContent": "old"}
    edited = raw("STORER", action=action, userFeedback="CONFIRMED", userCorrection={"editedContent": "new"})
    assert edited == pytest.approx(1 + 0.5 * -0.1 / 3)
    moved = {"location": "diary", "suggestedContent": "new"}
    assert raw("STORER", action=action, userFeedback="CORRECTED", userCorrection=moved) == pytest.approx(
        -0.5 + 0.5 * -0.1 * 2 / 3
    )


@pytest.mark.parametrize(
    ("metric", "value", "reward"),
    [("corpusCoherence", 1, 0.35), ("findability", 1, 0.18), ("duplicationDetected", True, -0.2)],
)
def test_what_became_of_what_was_stored(metric: str, value: Any, reward: float):
    assert raw("STORER", outcomeMetrics={metric: value}) == pytest.approx(reward)


def test_two_inventions_weigh_more_than_a_yes():
    assert raw("RETRIEVER", userFeedback="CONFIRMED", outcomeMetrics={"hallucinationCount": 2}) == pytest.approx(-3)


@pytest.mark.parametrize(("word", "reward"), [("CORRECTED", -1.0), ("OVERRIDDEN", 0.0), ("CONFIRMED", 1.0)])
def test_a_corrected_answer_costs_a_retriever_more(word: str, reward: float):
    assert raw("RETRIEVER", userFeedback=word) == reward


@pytest.mark.parametrize(("edited", "change"), [("12345", 0.5), ("x" * 15, 0.5), ("y" * 10, 0.0)])
def test_an_edit_costs_a_retriever_by_how_much_longer_or_shorter_it_is(edited: str, change: float):
    action = {"generatedContent": "0123456789"}
    reward = raw("RETRIEVER", action=action, userFeedback="CONFIRMED", userCorrection={"editedContent": edited})
    assert reward == pytest.approx(1 + 0.5 * -0.1 * change)


@pytest.mark.parametrize(
    ("metric", "reward"),
    [
        ("citationCorrectness", 0.8 * 0.5),
        ("completeness", 0.6 * 0.3),
        ("coherence", 0.4 * 0.4),
        ("styleAlignment", 0.3 * 0.2),
    ],
)
def test_measured_quality_counts_as_it_is(metric: str, reward: float):
    assert raw("RETRIEVER", outcomeMetrics={metric: 1}) == pytest.approx(reward)


@pytest.mark.parametrize("agent_type", ["GUARDRAIL", "anything"])
def test_a_type_without_a_formula_is_rewarded_by_what_the_person_did(agent_type: str):
    assert raw(agent_type, userFeedback="OVERRIDDEN", outcomeMetrics={"hallucinationCount": 2}) == -0.8


# --- all of them ------------------------------------------------------------------------------------------------------


def test_the_sum_is_held_to_five():
    assert raw("RETRIEVER", outcomeMetrics={"hallucinationCount": 9}) == -LIMIT == -5.0
    assert raw("PRIORITIZER", outcomeMetrics={"strategicProgress": 99}) == LIMIT


@pytest.mark.parametrize("agent_type", ["FILER", "LIBRARIAN", "PRIORITIZER", "STORER", "RETRIEVER", "GUARDRAIL"])
def test_nothing_known_is_not_a_reward_of_zero(agent_type: str):
    assert DecisionReward().compute(trace_of(agent_type, confidence=0.9)).value is None


def test_the_reward_that_came_with_the_decision_stays_whatever_is_said_later():
    assert raw("FILER", reward=1.5, userFeedback="OVERRIDDEN") == 1.5


def test_components_that_came_with_it_go_before_what_is_told():
    components = {"immediate": {"userFeedback": 0.25}}
    assert raw("LIBRARIAN", userFeedback="CONFIRMED", rewardComponents=components) == 0.25


def test_an_outcome_of_a_components_name_is_that_component():
    assert raw("PRIORITIZER", outcomeMetrics={"completionSuccess": 0.5}) == 0.5


def test_feedback_counts_once():
    trace = trace_of("LIBRARIAN", userFeedback="CONFIRMED")
    assert FeedbackReward().compute(trace).value is None
    assert RewardEngine().compute_combined(trace) == pytest.approx((1 + 2) / 4)
    rated = replace(trace, feedback=(*trace.feedback, FeedbackRecord(kind="rating", rater="user:alice", value=0.0)))
    assert FeedbackReward().compute(rated).value == 0.0


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["immediate", "status", "x"]), inner),
    max_leaves=6,
)
NAMES = ["reward", "rewardComponents", "confidence", "agentType", "userFeedback", "item"]


@given(
    st.dictionaries(st.sampled_from(NAMES), JSON),
    st.sampled_from(["FILER", "STORER", "RETRIEVER", "X"]),
    JSON,
    st.text(),
)
def test_any_decision_is_judged_or_not_and_breaks_nothing(decision: Any, agent: str, action: Any, edited: str):
    said = (
        FeedbackRecord(kind="rating", rater="decision", tags=("CONFIRMED",), value=1.0),
        FeedbackRecord(kind="correction", rater="decision", text=edited),
    )
    trace = replace(record(details={"decision": decision}, feedback=said), agent=agent, action=action)
    result = DecisionReward().compute(trace)
    assert result.value is None or 0 <= result.value <= 1


def decide(number: int, **fields) -> None:
    record = {"agentType": "FILER", "id": f"d{number}", "state": number, "action": {"swimlane": "Home"}, **fields}
    TraceStore("test").take([read_decision(record, "line")])


def scores() -> dict[str, float]:
    rewarding.calculate()
    agent = Agent.by_name("FILER")
    rows = all_rows(freeze(agent, DataOptions(min_samples=1, val_split=0), method="reward_model"))
    return {row["prompt"][0]["content"]: row["score"] for row in rows}


@pytest.mark.django_db
def test_the_score_is_the_reward_of_the_decision(data_dir):
    outcomes = {"completedSuccessfully": True, "cycleCount": 0, "totalTimeInCreate": 100}
    decide(1, userFeedback="CONFIRMED", confidence=0.9, outcomeMetrics=outcomes)
    decide(2, userFeedback="CONFIRMED", reward=-3)
    decide(3, userFeedback="IGNORED")
    assert scores() == {"1": pytest.approx((1.64 + 2) / 4), "2": 0.0, "3": 0.5}
