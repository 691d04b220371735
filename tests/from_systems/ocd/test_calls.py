"""OCD's own addresses."""

import json
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from rl.collect.traces.write import TraceStore
from rl.from_systems.ocd.figures import get_training_stats
from rl.from_systems.ocd.records import read_decision
from rl.models import Agent, Feedback, Trace
from rl.scoring import stored as rewarding
from tests.web.api.conftest import Caller, assert_problem, key_for

pytestmark = pytest.mark.django_db
FILER = {"id": "d1", "agentType": "FILER", "userId": "u1", "modelVersion": "v1", "confidence": 0.9, "itemId": "i1"}
STATE, ACTION = {"title": "Fix the door"}, {"swimlane": "PROJECT", "priority": "MEDIUM"}


def decide(server: Caller, **fields: Any) -> None:
    body = {**FILER, "state": STATE, "action": ACTION, **fields}
    assert server.post("/api/decisions/", body).status_code in (200, 201)


def patch(server: Caller, path: str, **body: Any) -> HttpResponse:
    return server.client.patch(path, json.dumps(body), content_type="application/json")


def observe(server: Caller, decision: str, **outcomes: Any) -> None:
    assert server.post(f"/api/decisions/{decision}/outcomes/", {"outcomeMetrics": outcomes}).status_code < 300


# --- feedback ---------------------------------------------------------------------------------------------------------


def test_feedback_answers_with_the_decisions_row(server: Caller):
    decide(server)
    answer = patch(server, "/api/decisions/d1/feedback", feedback="CONFIRMED")
    row = answer.json()
    assert answer.status_code == 200
    assert (row["id"], row["agentType"], row["userFeedback"], row["reward"]) == ("d1", "FILER", "CONFIRMED", None)
    assert (row["state"], row["action"], row["item"]["id"]) == (STATE, ACTION, "i1")
    assert (row["isTrainingData"], row["isValidationData"]) == (True, False)
    assert row["feedbackAt"]
    rating = Feedback.objects.get()
    assert (rating.rater, rating.tags, rating.value) == ("decision:u1", ["CONFIRMED"], 1.0)


def test_an_edited_text_is_a_pair_also_where_the_person_confirmed(server: Caller):
    decide(server, id="s1", agentType="STORER", action={"location": "notes", "suggestedContent": "old"})
    row = patch(server, "/api/decisions/s1/feedback", feedback="CONFIRMED", correction={"editedContent": "new"}).json()
    assert row["userCorrection"] == {"location": "notes", "suggestedContent": "new"}
    correction = Feedback.objects.get(kind="correction")
    assert json.loads(correction.text) == {"location": "notes", "suggestedContent": "new"}


@pytest.mark.database
def test_a_filing_is_judged_by_its_change_of_status(server: Caller):
    decide(server, statusChangeId="c7")
    decide(server, id="d2", state={"title": "Call Ann"})
    path = "/api/status-changes/{}/feedback"
    row = patch(
        server, path.format("c7"), feedback="CORRECTED", correction={"swimlane": "HOME", "labels": ["a"]}
    ).json()
    assert (row["id"], row["statusChangeId"], row["userFeedback"]) == ("d1", "c7", "CORRECTED")
    assert row["userCorrection"] == {**ACTION, "swimlane": "HOME", "labels": ["a"]}
    assert patch(server, path.format("d2"), feedback="CONFIRMED").json()["id"] == "d2"
    assert_problem(patch(server, path.format("nobody"), feedback="CONFIRMED"), 404)


@pytest.mark.database
def test_a_key_for_another_agent_finds_no_change_of_status(server: Caller, other_agent: Agent):
    decide(server, statusChangeId="c7")
    stranger = Client(headers={"Authorization": f"Bearer {key_for(other_agent)}"})
    address, body = "/api/status-changes/c7/feedback", json.dumps({"feedback": "CONFIRMED"})
    assert_problem(stranger.patch(address, body, content_type="application/json"), 404)


@pytest.mark.parametrize("body", [{"feedback": "LIKED"}, {}, {"feedback": "CONFIRMED", "note": "x"}])
def test_another_word_is_refused_in_ocds_form(server: Caller, body: dict[str, Any]):
    decide(server)
    answer = patch(server, "/api/decisions/d1/feedback", **body)
    document = assert_problem(answer, 400)
    assert document["error"] == document["detail"]
    assert document["details"][0]["pointer"].strip("/") in ("feedback", "note")


def test_what_is_not_there_or_not_allowed_is_an_error_in_ocds_form(server: Caller, agent: Agent):
    assert (
        "no decision" in assert_problem(patch(server, "/api/decisions/d9/feedback", feedback="CONFIRMED"), 404)["error"]
    )
    assert "error" in assert_problem(Client().get("/api/training/stats"), 401)
    decide(server)
    bound = Caller(key_for(agent))
    assert_problem(patch(bound, "/api/decisions/d1/feedback", feedback="CONFIRMED"), 404)


def test_the_key_may_come_as_ocds_cron_jobs_send_theirs(server: Caller, secret_key: str):
    decide(server, userFeedback="CONFIRMED")
    path = "/api/training/calculate-pending"
    answer = Client().generic("POST", path, headers={"x-internal-api-key": secret_key})
    assert answer.json()["processed"] == 1
    assert Client().generic("POST", path, headers={"x-internal-api-key": "no"}).status_code == 401


# --- rewards ----------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_pending_rewards_are_counted_and_computed(server: Caller):
    decide(server, userFeedback="CONFIRMED")
    decide(server, id="d2", state={"title": "other"})
    observe(server, "d1", completedSuccessfully=True, totalTimeInCreate=100)
    assert server.get("/api/training/calculate-pending").json()["pendingRewards"] == 2
    assert server.get("/api/training/outcomes").json() == {"pendingCount": 1}
    assert server.get("/api/training/track-outcomes").json() == {"pendingOutcomes": 1}
    answer = server.post("/api/training/calculate-pending").json()
    assert (answer["success"], answer["processed"], answer["errors"]) == (True, 1, 0)
    assert server.get("/api/training/calculate-pending").json()["pendingRewards"] == 0
    rows = {row["id"]: row["reward"] for row in server.get("/api/training/decisions").json()}
    assert rows == {"d1": pytest.approx(1.64), "d2": None}


@pytest.mark.database
@pytest.mark.parametrize("path", ["outcomes", "track-outcomes"])
def test_new_outcomes_are_rewarded(server: Caller, path: str):
    for number in range(3):
        decide(server, id=f"d{number}", state={"n": number})
        observe(server, f"d{number}", completedSuccessfully=True)
    first = server.post("/api/training/outcomes", {"limit": 2}).json()
    assert first == {"success": True, "processed": 2, "updated": 2, "rewardsCalculated": 2, "errors": 0}
    rest = server.post(f"/api/training/{path}").json()
    assert (rest["processed"], rest["rewardsCalculated"]) == (1, 1)


@pytest.mark.database
def test_rewards_of_named_decisions_are_computed_again(server: Caller):
    decide(server, userFeedback="CONFIRMED", confidence=None)
    [row] = server.post("/api/training/decisions", {"decisionIds": ["d1", "nobody"]}).json()["decisions"]
    assert (row["id"], row["reward"]) == ("d1", 1.0)
    assert row["components"]["immediate"]["userFeedback"] == 1.0
    patch(server, "/api/decisions/d1/feedback", feedback="OVERRIDDEN")
    answer = server.post("/api/training/decisions", {"decisionIds": ["d1"]}).json()
    assert (answer["updated"], answer["decisions"][0]["reward"]) == (1, -0.8)


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def rewarded(server: Caller) -> None:
    """Rewards 1, -0.5 and 2.25, and a decision of which nothing is known."""
    plain = {"confidence": None}
    decide(server, id="d1", userFeedback="CONFIRMED", **plain)
    decide(server, id="d2", userFeedback="CORRECTED", modelVersion="v2", state={"n": 2}, **plain)
    outcomes = {"completedSuccessfully": True, "timeEfficiency": 1.6}
    more = {"agentType": "PRIORITIZER", "userFeedback": "CONFIRMED", "outcomeMetrics": outcomes}
    decide(server, id="p1", state={"n": 3}, action={"recommendedItemId": "i7"}, **more, **plain)
    decide(server, id="d4", state={"n": 4}, **plain)
    server.post("/api/training/calculate-pending")


@pytest.mark.database
@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({}, {"d1", "d2", "p1", "d4"}),
        ({"agentType": "filer"}, {"d1", "d2", "d4"}),
        ({"minReward": "-2"}, {"d1", "d2", "p1"}),
        ({"minReward": "0", "maxReward": "2"}, {"d1"}),
        ({"requireReward": "true"}, {"d1", "d2", "p1"}),
        ({"requireFeedback": "1", "agentType": "FILER"}, {"d1", "d2"}),
        ({"agentType": "nobody"}, set()),
    ],
)
def test_decisions_are_listed_by_their_raw_reward(server: Caller, rewarded: None, query: Any, ids: set[str]):
    assert {row["id"] for row in server.get("/api/training/decisions", **query).json()} == ids


@pytest.mark.parametrize(
    "query", [{"minReward": "much"}, {"limit": "0"}, {"requireReward": "perhaps"}, {"minReward": "nan"}, {"sort": "x"}]
)
def test_a_filter_that_makes_no_sense_is_refused(server: Caller, query: dict[str, str]):
    assert "error" in assert_problem(server.get("/api/training/decisions", **query), 400)


@pytest.mark.database
def test_the_figures(server: Caller, rewarded: None):
    stats = server.get("/api/training/stats", agentType="FILER").json()
    assert stats == {
        "totalDecisions": 3,
        "decisionsWithReward": 2,
        "decisionsWithFeedback": 2,
        "avgReward": 0.25,
        "progressBlocks": 0,
        "progressInCurrentBlock": 3,
        "progressPercentage": 3.0,
        "byAgentType": {"FILER": 3},
        "readyForTraining": False,
    }
    assert server.get("/api/training/stats").json()["byAgentType"] == {"FILER": 3, "PRIORITIZER": 1}


@pytest.mark.database
def test_versions_are_compared(server: Caller, rewarded: None):
    assert_problem(server.get("/api/training/ab-test"), 400, "agentType")
    one = server.get("/api/training/ab-test", agentType="PRIORITIZER").json()
    assert (one["abTestingEnabled"], [row["version"] for row in one["versions"]]) == (False, ["v1"])
    both = server.get("/api/training/ab-test", agentType="FILER").json()
    assert (both["abTestingEnabled"], both["totalDecisions"], both["overallAvgReward"]) == (True, 3, 0.25)
    best, other = both["versions"]
    assert (best["version"], best["weight"], best["stats"]["avgReward"]) == ("v1", pytest.approx(2 / 3), 1.0)
    assert best["stats"]["feedbackBreakdown"] == {"confirmed": 1, "corrected": 0, "ignored": 0}
    assert (best["stats"]["acceptanceRate"], other["stats"]["acceptanceRate"]) == (1.0, 0.0)
    assert both["comparison"]["bestReward"] == best == both["comparison"]["mostDecisions"]


@pytest.mark.database
def test_the_file_has_rows_to_train_on(server: Caller, rewarded: None):
    assert_problem(server.get("/api/training/export-file"), 400, "agentType")
    answer = server.get("/api/training/export-file", agentType="FILER")
    assert "attachment" in answer["content-disposition"]
    rows = [json.loads(line) for line in answer.content.decode().splitlines()]
    assert {row["metadata"]["decisionId"]: row["reward"] for row in rows} == {"d1": 1.0, "d2": -0.5}
    row = next(row for row in rows if row["metadata"]["decisionId"] == "d1")
    assert row["prompt"] == '<|user|>\n{"title": "Fix the door"}\n<|assistant|>\n'
    assert json.loads(row["completion"]) == {
        "swimlane": "PROJECT",
        "priority": "MEDIUM",
        "labels": None,
        "urgency": "To Do",
        "reasoning": None,
        "confidence": None,
    }


@pytest.mark.database
def test_messages_are_rows_of_a_chat(server: Caller, rewarded: None):
    Agent.objects.filter(name="PRIORITIZER").update(system_prompt="Choose what is next.")
    [row] = server.get("/api/training/export", agentType="PRIORITIZER").json()
    assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant"]
    assert json.loads(row["messages"][-1]["content"])["recommended_item_id"] == "i7"
    assert (row["reward"], row["metadata"]["userFeedback"]) == (pytest.approx(2.25), "CONFIRMED")


@pytest.mark.database
@pytest.mark.parametrize("flags", [{"isTrainingData": False}, {"isValidationData": True}])
def test_what_is_not_for_training_is_in_no_file(server: Caller, rewarded: None, flags: dict[str, bool]):
    decide(server, id="d1", userFeedback="CONFIRMED", confidence=None, **flags)
    lines = server.get("/api/training/export-file", agentType="FILER").content.decode().splitlines()
    assert [json.loads(line)["metadata"]["decisionId"] for line in lines] == ["d2"]


@pytest.mark.database
def test_other_agents_do_not_exist_for_a_key(server: Caller, rewarded: None):
    own = Caller(key_for(Agent.objects.get(name="PRIORITIZER")))
    assert [row["id"] for row in own.get("/api/training/decisions").json()] == ["p1"]
    assert own.get("/api/training/stats").json()["totalDecisions"] == 1
    assert own.post("/api/training/decisions", {"decisionIds": ["d1"]}).json()["updated"] == 0


def test_ratchets_own_addresses_keep_their_answers(server: Caller, rewarded: None):
    assert server.post("/api/training/calculate-pending/").status_code == 202
    assert "total_traces" in server.get("/api/training/stats/", agentType="FILER").json()
    assert Trace.objects.count() == 4


def test_the_figures_of_one_type_have_the_names_of_its_scripts():
    rows = [
        {"reward": 1.5, "userFeedback": "CONFIRMED"},
        {"reward": -3.0, "isValidationData": True},
        {"isTrainingData": False},
        {"agentType": "STORER", "reward": 5},
    ]
    common = {"agentType": "FILER", "action": {"swimlane": "Home"}}
    decisions = [read_decision({**common, "state": number, **row}, "line") for number, row in enumerate(rows)]
    TraceStore("test").take(decisions)
    rewarding.calculate()
    assert get_training_stats("filer") == {
        "total_decisions": 3,
        "decisions_with_reward": 2,
        "decisions_with_feedback": 1,
        "avg_reward": -0.75,
        "min_reward": -3.0,
        "max_reward": 1.5,
        "training_data_count": 2,
        "validation_data_count": 1,
    }


@pytest.mark.database
def test_a_type_without_decisions_has_no_rewards():
    figures = get_training_stats("LIBRARIAN")
    assert (figures["total_decisions"], figures["avg_reward"]) == (0, None)
