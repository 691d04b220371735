import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.collect.traces.imported import ImportedTrace, Rejected, problem
from rl.from_systems.ocd.records import canonical, other_metrics, outcomes, read_decision, user_feedback

DECISION = {
    "id": "d1",
    "agentType": "FILER",
    "state": {"title": "Fix the door", "backlog": 3},
    "action": {"swimlane": "Home", "priority": 2},
    "reward": 0.5,
    "itemId": "item-1",
    "opusId": "opus-1",
    "userId": "u1",
    "modelVersion": "v25",
    "confidence": 0.8,
    "reasoning": "doors are at home",
    "alternativeActions": [{"swimlane": "Project"}],
    "nextState": {"backlog": 2},
    "rewardComponents": {"userFeedback": 1.0},
    "isTrainingData": True,
    "createdAt": "2026-02-01T12:00:00Z",
}


def read(**changes: Any) -> ImportedTrace:
    found = read_decision({**DECISION, **changes}, "line 3")
    assert isinstance(found, ImportedTrace), found
    return found


def refusal(**changes: Any) -> str:
    found = read_decision({**DECISION, **changes}, "line 3")
    assert isinstance(found, Rejected), found
    assert found.where == "line 3"
    return found.reason


def test_a_decision_is_a_trace():
    found = read()
    assert (found.where, found.external_id, found.agent, found.model_version) == ("line 3", "d1", "FILER", "v25")
    assert found.prompt == ({"role": "user", "content": '{"backlog": 3, "title": "Fix the door"}'},)
    assert found.response == '{"priority": 2, "swimlane": "Home"}'
    assert (found.state, found.action) == (DECISION["state"], DECISION["action"])
    assert found.occurred_at == datetime(2026, 2, 1, 12, tzinfo=UTC)
    kept = set(DECISION) - {"id", "agentType", "state", "action"}
    assert found.details == {"decision": {name: DECISION[name] for name in kept}}
    assert found.feedback == ()
    assert problem(found) == ""


@pytest.mark.parametrize(("word", "value"), [("CONFIRMED", 1), ("CORRECTED", 0), ("OVERRIDDEN", 0), ("IGNORED", 0.5)])
def test_what_a_person_did_is_a_rating_with_the_word_as_its_tag(word: str, value: float):
    (said,) = read(userFeedback=word, feedbackAt="2026-02-02T12:00:00+02:00").feedback
    assert (said.kind, said.scale, said.value, said.tags, said.rater) == (
        "rating",
        "score",
        value,
        (word,),
        "decision:u1",
    )
    assert said.rated_at == datetime(2026, 2, 2, 10, tzinfo=UTC)


def test_a_correction_is_the_action_that_it_should_have_been():
    rating, correction = read(userFeedback="CORRECTED", userCorrection={"swimlane": "Project", "priority": 1}).feedback
    assert (correction.kind, correction.text) == ("correction", '{"priority": 1, "swimlane": "Project"}')
    assert correction.rater == rating.rater


def test_a_correction_that_is_the_action_corrects_nothing():
    assert read(userCorrection={"priority": 2, "swimlane": "Home"}).feedback == ()


def test_every_number_among_the_outcomes_is_an_outcome_and_the_rest_is_kept():
    metrics = {"completed": True, "blocked": False, "days": 3, "note": "late", "parts": {"a": 1}, "none": None}
    found = read(outcomeMetrics=metrics, outcomeObservedAt="2026-03-01")
    assert {(said.metric, said.value) for said in found.feedback} == {
        ("completed", 1.0),
        ("blocked", 0.0),
        ("days", 3.0),
    }
    assert {said.rater for said in found.feedback} == {"system:decision"}
    assert found.feedback[0].rated_at == datetime(2026, 3, 1, tzinfo=UTC)
    assert found.details["decision"]["outcomeMetrics"] == {"note": "late", "parts": {"a": 1}, "none": None}
    assert "outcomeMetrics" not in read(outcomeMetrics={"days": 3}).details["decision"]


def test_without_an_id_the_content_is_the_id_whatever_was_said_since():
    first = read(id=None)
    assert first.external_id == read(id=None, userFeedback="CONFIRMED", reward=1, outcomeMetrics={"a": 1}).external_id
    assert first.external_id != read(id=None, state={"title": "Fix the roof"}).external_id
    assert first.external_id != read(id=None, createdAt="2026-02-01T12:00:01Z").external_id
    assert read(id=None, decisionId="d9").external_id == "d9"


def test_without_a_person_the_rater_is_nobody_in_particular():
    (said,) = read(userFeedback="CONFIRMED", userId=None).feedback
    assert said.rater == "decision"


def test_nobody_in_a_log_speaks_for_people_who_sign_in():
    (said,) = read(userFeedback="CONFIRMED", userId="user:alice").feedback
    assert said.rater == "decision:user:alice"


def test_little_is_enough():
    found = read_decision({"state": [1], "action": "wait"}, "line 1")
    assert isinstance(found, ImportedTrace)
    assert (found.agent, found.response, found.details, found.occurred_at) == ("", '"wait"', {"decision": {}}, None)
    assert read(state=0, action=False).response == "false"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"state": None}, "state is missing"),
        ({"action": None}, "action is missing"),
        ({"agentType": "../etc"}, "agentType"),
        ({"agentType": 7}, "agentType"),
        ({"id": "x" * 201}, "id"),
        ({"id": 7}, "id"),
        ({"confidence": 1.5}, "confidence"),
        ({"confidence": "high"}, "confidence"),
        ({"confidence": True}, "confidence"),
        ({"reward": "1"}, "reward"),
        ({"reward": float("nan")}, "finite"),
        ({"rewardComponents": [1]}, "rewardComponents"),
        ({"userFeedback": "LIKED"}, "CONFIRMED, CORRECTED, OVERRIDDEN, IGNORED"),
        ({"userFeedback": 1}, "userFeedback"),
        ({"feedbackAt": "yesterday", "userFeedback": "CONFIRMED"}, "feedbackAt"),
        ({"createdAt": 1769947200}, "createdAt"),
        ({"createdAt": "0001-01-01T00:00:00+14:00"}, "createdAt"),
        ({"outcomeMetrics": [1]}, "outcomeMetrics"),
        ({"outcomeMetrics": {"": 1}}, "outcomeMetrics"),
        ({"outcomeMetrics": {"m" * 101: 1}}, "outcomeMetrics"),
        ({"userId": {"id": 1}}, "userId"),
        ({"userId": "u" * 191, "userFeedback": "CONFIRMED"}, "userId"),
        ({"modelVersion": 25}, "modelVersion"),
        ({"reasoning": "a\x00b"}, "NUL"),
        ({"state": {"a": "\ud800"}}, "surrogate"),
        ({"state": json.loads("[" * 70 + "]" * 70)}, "64 levels"),
        ({"reward": 2**70}, "64 bits"),
    ],
)
def test_what_is_wrong_is_refused_in_words(changes: dict[str, Any], says: str):
    assert says in refusal(**changes)


@pytest.mark.parametrize("record", [None, 7, "x", [], [DECISION]])
def test_what_is_no_object_is_refused(record: object):
    assert read_decision(record, "line 1") == Rejected("line 1", "must be a JSON object")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(
    changes=st.dictionaries(
        st.sampled_from([*DECISION, "userFeedback", "userCorrection", "outcomeMetrics", "feedbackAt"]), VALUES
    )
)
def test_whatever_is_read_can_be_stored(changes: dict[str, Any]):
    found = read_decision({**DECISION, **changes}, "line 1")
    if isinstance(found, ImportedTrace) and len(found.model_version) <= 200:
        assert problem(found) == ""


def test_json_is_written_one_way():
    assert (
        canonical({"b": [1, None], "a": "ü"}) == '{"a": "ü", "b": [1, null]}' == canonical({"a": "ü", "b": [1, None]})
    )


def test_the_parts_are_read_alone_too():
    assert user_feedback({"userFeedback": "ignored"}, None)[0].value == 0.5
    assert outcomes({}) == ()
    assert other_metrics({"outcomeMetrics": {"a": "x", "b": 1}}) == {"a": "x"}
