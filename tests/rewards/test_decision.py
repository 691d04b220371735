from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.base.records import FeedbackRecord
from rl.collect.decisions import read_decision
from rl.collect.traces.imported import ImportedTrace
from rl.rewards import DecisionReward, RewardResult
from rl.rewards.decision import FEEDBACK
from tests.rewards.records import record


def said(word: str, value: float = 1.0) -> FeedbackRecord:
    return FeedbackRecord(kind="rating", value=value, tags=(word,))


def outcome(metric: str, value: float) -> FeedbackRecord:
    return FeedbackRecord(kind="outcome", metric=metric, raw_value=value)


def compute(decision: dict, *feedback: FeedbackRecord, weights=None) -> RewardResult:
    return DecisionReward(weights).compute(record(details={"decision": decision}, feedback=feedback))


def raw(*arguments, **options) -> float:
    return compute(*arguments, **options).details["reward"]


# --- where the reward comes from --------------------------------------------------------------------------------------


def test_the_reward_that_came_with_the_decision_goes_first():
    result = compute({"reward": -0.5, "rewardComponents": {"userFeedback": 1.0}}, said("CONFIRMED"))
    assert (result.value, result.reason) == (0.375, "the reward that came with the decision")


@pytest.mark.parametrize(("stored", "value"), [(2, 1.0), (-2, 0.0), (0, 0.5), (1, 0.75), (99, 1.0), (-99, 0.0)])
def test_it_is_normalised_to_0_to_1(stored, value):
    assert compute({"reward": stored}).value == value


def test_components_are_summed_with_the_weights_of_the_agents_type():
    components = {"immediate": {"userFeedback": 1.0}, "delayed": {"completionSuccess": 0.5, "timeEfficiency": -1.0}}
    result = compute({"agentType": "FILER", "rewardComponents": components})
    assert result.details["reward"] == pytest.approx(1.0 * 1.0 + 0.5 * 0.5 - 0.3)
    assert result.details["components"]["delayed"]["completionSuccess"] == {"value": 0.5, "weight": 0.5}


def test_components_may_be_flat():
    assert raw({"agentType": "STORER", "rewardComponents": {"editDistance": 0.5, "findability": 1}}) == pytest.approx(
        0.85
    )


def test_the_name_of_the_agent_stands_in_for_the_type():
    decision = {"rewardComponents": {"conflictPrevention": 0.5}}
    trace = record(details={"decision": decision})
    librarian = DecisionReward().compute(type(trace)(**{**fields_of(trace), "agent": "librarian"}))
    assert librarian.details["reward"] == 1.0


def fields_of(trace) -> dict:
    return {name: getattr(trace, name) for name in trace.__dataclass_fields__}


def test_the_sum_is_clamped():
    decision = {"agentType": "LIBRARIAN", "rewardComponents": {"conflictPrevention": 40}}
    assert raw(decision) == 5.0
    assert raw({**decision, "rewardComponents": {"conflictPrevention": -40}}) == -5.0


def test_without_components_the_word_decides():
    weights = {"immediate": {"userFeedback": 0}}
    for word, reward in {"CONFIRMED": 1.0, "CORRECTED": -0.5, "OVERRIDDEN": -0.8, "IGNORED": 0.0}.items():
        result = compute({}, said(word), weights=weights)
        assert (result.details["reward"], result.value) == (reward, pytest.approx((reward + 2) / 4))


@pytest.mark.parametrize(
    "decision", [{}, {"reward": None}, {"rewardComponents": {"unheardOf": 1}}, {"reward": "much"}, {"reward": 10**400}]
)
def test_nothing_known_is_no_reward(decision):
    assert compute(decision).value is None


def test_what_is_no_decision_is_none():
    assert DecisionReward().compute(record(details={"decision": "yes"})).value is None
    assert DecisionReward().compute(record()).value is None


# --- components that are told from what is known ----------------------------------------------------------------------


def test_the_word_is_the_component_of_feedback_and_acceptance():
    assert raw({"agentType": "LIBRARIAN"}, said("OVERRIDDEN")) == -0.8
    assert raw({"agentType": "RETRIEVER"}, said("corrected")) == -0.5


def test_the_last_word_counts():
    assert raw({"userFeedback": "OVERRIDDEN"}, said("IGNORED"), said("CONFIRMED"), said("nice")) == 1.0
    assert raw({"userFeedback": "OVERRIDDEN"}) == -0.8


@pytest.mark.parametrize(
    ("word", "confidence", "calibration"), [("CONFIRMED", 1.0, 1.0), ("CONFIRMED", 0.5, 0.5), ("OVERRIDDEN", 1.0, -1.0)]
)
def test_confidence_is_measured_against_what_the_person_did(word, confidence, calibration):
    decision = {"agentType": "FILER", "confidence": confidence}
    assert raw(decision, said(word)) == pytest.approx(FEEDBACK[word] + 0.1 * calibration)


def test_an_ignored_decision_says_nothing_of_its_confidence():
    assert raw({"agentType": "FILER", "confidence": 1.0}, said("IGNORED")) == 0.0


def test_outcomes_of_the_same_name_are_components_the_last_one_counts_held_to_one():
    assert raw({"agentType": "PRIORITIZER"}, outcome("completionSuccess", 0), outcome("completionSuccess", 1)) == 1.0
    assert raw({"agentType": "PRIORITIZER"}, outcome("timeEfficiency", 120), outcome("clicks", 7)) == 0.5


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_a_penalty_counts_downwards_whatever_its_sign(value):
    assert raw({"agentType": "RETRIEVER"}, outcome("hallucinationPenalty", value)) == -2.0


def test_what_came_with_the_decision_goes_before_what_is_told():
    components = {"delayed": {"completionSuccess": 0.25}}
    assert raw({"agentType": "PRIORITIZER", "rewardComponents": components}, outcome("completionSuccess", 1)) == 0.25


def test_the_agents_own_weights_count():
    assert raw({"agentType": "PRIORITIZER"}, said("CONFIRMED"), weights={"immediate": {"userAcceptance": 0.5}}) == 0.5
    assert raw({}, outcome("speed", 1), weights={"quality": {"speed": 2.0}}) == 2.0


# --- with records as they come ----------------------------------------------------------------------------------------


def test_a_decision_that_was_read_has_its_reward():
    given_record = {
        "id": "d1",
        "agentType": "FILER",
        "state": {"item": 1},
        "action": {"swimlane": "Habit"},
        "confidence": 0.8,
        "userFeedback": "CONFIRMED",
        "outcomeMetrics": {"completionSuccess": True, "reworkPenalty": 1},
    }
    read = read_decision(given_record, "line 1")
    assert isinstance(read, ImportedTrace)
    feedback = [
        FeedbackRecord(
            kind=one.kind,
            rater=one.rater,
            tags=one.tags,
            metric=one.metric,
            value=one.value if one.kind == "rating" else None,
            raw_value=one.value,
        )
        for one in read.feedback
    ]
    trace = record(details=read.details, feedback=tuple(feedback))
    trace = type(trace)(**{**fields_of(trace), "agent": read.agent})
    assert DecisionReward().compute(trace).details["reward"] == pytest.approx(1 + 0.1 * 0.92 + 0.5 - 0.2)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["immediate", "userFeedback", "x"]), inner)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["reward", "rewardComponents", "confidence", "agentType", "userFeedback"]), JSON)
)
def test_any_decision_is_judged_or_not_and_breaks_nothing(decision):
    result = compute(decision)
    assert result.value is None or 0 <= result.value <= 1
