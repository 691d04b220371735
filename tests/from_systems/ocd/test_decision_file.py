import json
from datetime import UTC, datetime

import pytest

from rl.from_systems.ocd import records as ocd_decision
from tests.collect.importers.reading import document, lines, one, reason, taken

DECISION = {
    "id": "d1",
    "agentType": "FILER",
    "state": {"item": "tax"},
    "action": {"swimlane": "Home"},
    "confidence": 0.9,
    "userFeedback": "CORRECTED",
    "userCorrection": {"swimlane": "Project"},
    "outcomeMetrics": {"done": True},
    "createdAt": "2026-02-01T12:00:00Z",
}
EXPORTED = {
    "prompt": "File: tax",
    "completion": '{"swimlane":"Home"}',
    "reward": 1.5,
    "confidence": 0.9,
    "metadata": {"decisionId": "d1", "itemId": "i1", "userFeedback": "CONFIRMED", "createdAt": "2026-02-01T12:00:00Z"},
}


def test_a_decision_names_its_agent_and_brings_its_feedback(tmp_path):
    trace = one(ocd_decision, tmp_path, DECISION)
    assert (trace.external_id, trace.agent) == ("d1", "FILER")
    assert (trace.state, trace.action) == ({"item": "tax"}, {"swimlane": "Home"})
    assert sorted(said.kind for said in trace.feedback) == ["correction", "outcome", "rating"]


@pytest.mark.parametrize("value", [[DECISION], {"decisions": [DECISION]}, DECISION])
def test_it_reads_lists_and_documents(tmp_path, value):
    assert len(taken(ocd_decision, document(tmp_path, value))) == 1


def test_an_exported_row_keeps_its_texts(tmp_path):
    trace = one(ocd_decision, tmp_path, EXPORTED)
    assert (trace.external_id, trace.agent, trace.state) == ("d1", "", None)
    assert trace.prompt == ({"role": "user", "content": "File: tax"},)
    assert trace.response == EXPORTED["completion"]
    assert trace.action == json.loads(trace.response)
    assert trace.details["decision"]["reward"] == 1.5
    assert trace.details["decision"]["itemId"] == "i1"
    assert trace.occurred_at == datetime(2026, 2, 1, 12, tzinfo=UTC)
    assert [(said.kind, said.value) for said in trace.feedback] == [("rating", 1.0)]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"agentType": "FILER"}, "state is missing"),
        ({**DECISION, "confidence": 2}, "confidence must be"),
        ({**EXPORTED, "completion": "{"}, "completion must be the JSON text"),
        ({**EXPORTED, "metadata": 7}, "metadata must be an object"),
        ({**EXPORTED, "prompt": ""}, "prompt is missing"),
    ],
)
def test_a_wrong_line_is_rejected_with_the_field(tmp_path, row, why):
    assert reason(ocd_decision, tmp_path, row, DECISION).startswith(why)


def test_a_file_of_both_is_read(tmp_path):
    assert len(taken(ocd_decision, lines(tmp_path, DECISION, {**EXPORTED, "metadata": {}}))) == 2


MARKED = """<|system|>
You file items.
<|user|>
Item: tax

Classify this item.
<|assistant|>"""
TOLD = (
    {"role": "system", "content": "You file items."},
    {"role": "user", "content": "Item: tax\n\nClassify this item."},
)


def test_a_row_with_marks_of_who_speaks_is_told_in_messages(tmp_path):
    trace = one(ocd_decision, tmp_path, {**EXPORTED, "prompt": MARKED})
    assert trace.prompt == TOLD
    assert (trace.response, trace.state) == (EXPORTED["completion"], None)


CHAT = {
    "messages": [*TOLD, {"role": "assistant", "content": '{"swimlane": "Home"}'}],
    "reward": 0,
    "metadata": {
        "decisionId": "d9",
        "agentType": "GUARDRAIL",
        "userFeedback": "CORRECTED",
        "userCorrection": {"swimlane": "Project"},
        "outcomeMetrics": {"completedSuccessfully": True},
        "createdAt": "2026-02-01T12:00:00Z",
        "rewardComputedAt": None,
    },
}


def test_a_row_of_messages_is_a_decision_with_what_came_of_it(tmp_path):
    trace = one(ocd_decision, tmp_path, CHAT)
    assert (trace.external_id, trace.agent, trace.prompt) == ("d9", "GUARDRAIL", TOLD)
    assert trace.action == {"swimlane": "Home"}
    assert [event.kind for event in trace.feedback] == ["rating", "correction", "outcome"]
    assert json.loads(trace.feedback[1].text) == {"swimlane": "Project"}


@pytest.mark.parametrize(
    ("reward", "computed_at", "known"),
    [(0, None, None), (0, "2026-02-02T12:00:00Z", 0), (1.64, "2026-02-02T12:00:00Z", 1.64), (-3, None, -3)],
)
def test_a_reward_of_zero_that_nobody_computed_is_none(tmp_path, reward, computed_at, known):
    row = {**CHAT, "reward": reward, "metadata": {**CHAT["metadata"], "rewardComputedAt": computed_at}}
    assert one(ocd_decision, tmp_path, row).details["decision"].get("reward") == known


def test_messages_without_an_answer_are_rejected(tmp_path):
    assert "no message of the assistant" in reason(ocd_decision, tmp_path, {**CHAT, "messages": list(TOLD)}, DECISION)
