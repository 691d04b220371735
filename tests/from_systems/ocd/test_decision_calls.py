from typing import Any

import pytest

from rl.from_systems.ocd.records import canonical
from rl.models import Agent, ApiKey, Feedback, Trace
from tests.conftest import make_trace
from tests.web.api.conftest import Caller, assert_problem, key_for

URL, BULK = "/api/decisions/", "/api/decisions/bulk/"
pytestmark = pytest.mark.django_db


def decision(**changes: Any) -> dict[str, Any]:
    return {"agentType": "FILER", "id": "d1", "state": {"n": 1}, "action": {"swimlane": "Home"}, **changes}


@pytest.fixture
def stored(server: Caller) -> dict[str, Any]:
    return server.post(URL, decision(userId="u1")).json()


# --- storing -----------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_a_decision_is_stored_and_its_agent_is_made(server: Caller):
    response = server.post(URL, decision(confidence=0.9, userFeedback="CONFIRMED", outcomeMetrics={"done": True}))
    assert response.status_code == 201
    trace = Trace.objects.get()
    assert response.json() == {"id": str(trace.pk), "externalId": "d1", "agentType": "FILER"}
    assert (trace.agent.name, trace.source, trace.response) == ("FILER", "decisions", '{"swimlane": "Home"}')
    assert trace.details == {"decision": {"confidence": 0.9}}
    said = set(Feedback.objects.values_list("kind", "value", "raw_value", "metric"))
    assert said == {("rating", 1.0, 1.0, ""), ("outcome", None, 1.0, "done")}


def test_the_same_again_is_answered_with_200_and_adds_what_is_new(server: Caller, stored: dict[str, Any]):
    again = server.post(URL, decision(userId="u1", userFeedback="IGNORED"))
    assert (again.status_code, again.json()) == (200, stored)
    server.post(URL, decision(userId="u1", userFeedback="IGNORED"))
    assert (Trace.objects.count(), Feedback.objects.count()) == (1, 1)


def test_what_is_not_mentioned_again_stays(server: Caller):
    server.post(URL, decision(confidence=0.9, reasoning="It is at home."))
    server.post(URL, decision(reward=1.0))
    assert Trace.objects.get().details["decision"] == {"confidence": 0.9, "reasoning": "It is at home.", "reward": 1.0}


@pytest.mark.parametrize("empty", [[], {}, "", 0, False])
def test_an_empty_action_is_a_decision_too(server: Caller, empty: Any):
    assert server.post(URL, decision(state=empty, action=empty)).status_code == 201
    trace = Trace.objects.get()
    assert (trace.state, trace.action) == (empty, empty)
    assert server.post(f"{URL}d1/feedback/", {"userFeedback": "CONFIRMED"}).status_code == 201


def test_another_decision_under_the_same_id_is_a_conflict(server: Caller, stored: dict[str, Any]):
    assert_problem(server.post(URL, decision(action={"swimlane": "Project"})), 409, "d1")
    assert Trace.objects.get().action == {"swimlane": "Home"}


def test_without_an_id_the_content_is_the_id(server: Caller):
    bare = {"agentType": "FILER", "state": 1, "action": 2}
    assert [server.post(URL, bare).status_code for _ in range(2)] == [201, 200]
    assert server.post(URL, {**bare, "state": 3}).status_code == 201


@pytest.mark.database
def test_a_bound_key_stores_for_its_agent_only(agent: Agent):
    own = Caller(key_for(agent))
    assert own.post(URL, decision(agentType="Support-CHAT")).json()["agentType"] == "support-chat"
    nameless = decision(id="d2")
    del nameless["agentType"]
    assert own.post(URL, nameless).status_code == 201
    assert_problem(own.post(URL, decision(agentType="other")), 404, "other")
    assert list(Agent.objects.all()) == [agent]


def test_without_an_agent_it_is_refused(server: Caller):
    nameless = decision()
    del nameless["agentType"]
    assert_problem(server.post(URL, nameless), 400, "agentType is missing")


@pytest.mark.parametrize(
    "body", [decision(state=None), decision(userFeedback="LIKED"), decision(agentType="../x"), [], [decision()], {}]
)
def test_what_is_wrong_is_refused(server: Caller, body: Any):
    assert_problem(server.post(URL, body), 400)
    assert not Trace.objects.exists()
    assert not Agent.objects.exists()


def test_a_list_says_what_became_of_each(server: Caller, stored: dict[str, Any]):
    sent = [decision(), decision(id="d2"), decision(id="d2"), decision(action=1), decision(state=None), 7]
    response = server.post(BULK, sent)
    assert response.status_code == 207
    results = response.json()["results"]
    assert [one["status"] for one in results] == [200, 201, 200, 409, 400, 400]
    assert results[0]["id"] == stored["id"]
    assert results[1]["id"] == results[2]["id"]
    assert results[4]["problem"]["detail"] == "state is missing"
    assert Trace.objects.count() == 2


@pytest.mark.parametrize("body", [{}, [], "x", [1] * 1001])
def test_a_list_has_a_size(server: Caller, body: Any):
    assert_problem(server.post(BULK, body), 400, "1000")


def test_a_thousand_decisions_take_few_queries(server: Caller, django_assert_max_num_queries):
    sent = [decision(id=f"d{n}", state={"n": n}, userFeedback="CONFIRMED") for n in range(1000)]
    with django_assert_max_num_queries(110):
        results = server.post(BULK, sent).json()["results"]
    assert {one["status"] for one in results} == {201}
    assert Feedback.objects.count() == 1000


def test_a_list_does_not_make_agents_without_end(server: Caller):
    results = server.post(BULK, [decision(agentType=f"a{n}") for n in range(201)]).json()["results"]
    assert sorted({one["status"] for one in results}) == [201, 400]
    assert Agent.objects.count() == 200


# --- what comes later --------------------------------------------------------------------------------------------------


@pytest.fixture(params=["own", "ours"])
def address(request: pytest.FixtureRequest, stored: dict[str, Any]) -> str:
    return f"{URL}{'d1' if request.param == 'own' else stored['id']}/"


@pytest.mark.database
def test_feedback_comes_later(server: Caller, address: str):
    body = {
        "userFeedback": "CORRECTED",
        "userCorrection": {"swimlane": "Project"},
        "feedbackAt": "2026-02-02T10:00:00Z",
    }
    response = server.post(f"{address}feedback/", body)
    assert response.status_code == 201, response.content
    trace = Trace.objects.get()
    assert response.json() == {
        "id": str(trace.pk),
        "externalId": "d1",
        "agentType": "FILER",
        "recorded": 2,
        "ignored": [],
    }
    rating, correction = Feedback.objects.order_by("-kind").all()
    assert (rating.value, rating.tags, rating.rater, rating.api_key_id) == (
        0.0,
        ["CORRECTED"],
        "decision:u1",
        1 * rating.api_key_id,
    )
    assert correction.text == canonical({"swimlane": "Project"})
    assert rating.rated_at.isoformat() == "2026-02-02T10:00:00+00:00"
    assert trace.reward_pending


def test_feedback_again_changes_nothing_and_other_feedback_supersedes(server: Caller, address: str):
    for word, status, recorded in (("CONFIRMED", 201, 1), ("CONFIRMED", 200, 0), ("OVERRIDDEN", 201, 1)):
        response = server.post(f"{address}feedback/", {"userFeedback": word})
        assert (response.status_code, response.json()["recorded"]) == (status, recorded)
    assert Feedback.objects.get(is_current=True).tags == ["OVERRIDDEN"]


@pytest.mark.database
def test_somebody_else_may_judge_it(server: Caller, address: str):
    server.post(f"{address}feedback/", {"userFeedback": "CONFIRMED"})
    server.post(f"{address}feedback/", {"userFeedback": "IGNORED", "userId": "u2"})
    assert set(Feedback.objects.filter(is_current=True).values_list("rater", flat=True)) == {
        "decision:u1",
        "decision:u2",
    }


def test_a_correction_that_is_the_action_is_named(server: Caller, address: str):
    response = server.post(f"{address}feedback/", {"userCorrection": {"swimlane": "Home"}})
    assert (response.status_code, response.json()["recorded"]) == (200, 0)
    assert "userCorrection" in response.json()["ignored"][0]


@pytest.mark.database
def test_outcomes_come_later(server: Caller, address: str):
    body = {"outcomeMetrics": {"done": True, "days": 3.5, "note": "late"}, "outcomeObservedAt": "2026-03-01T00:00:00Z"}
    response = server.post(f"{address}outcomes/", body)
    assert (response.status_code, response.json()["recorded"]) == (201, 2)
    assert response.json()["ignored"] == ["note: neither a number nor true or false"]
    assert dict(Feedback.objects.values_list("metric", "raw_value")) == {"done": 1.0, "days": 3.5}
    again = server.post(f"{address}outcomes/", body)
    assert (again.status_code, again.json()["recorded"]) == (200, 0)
    assert Feedback.objects.count() == 2


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("feedback", {}),
        ("feedback", {"userFeedback": "LIKED"}),
        ("feedback", {"userFeedback": "CONFIRMED", "rating": 1}),
        ("feedback", {"userFeedback": "CONFIRMED", "feedbackAt": "then"}),
        ("feedback", {"userFeedback": "CONFIRMED", "userId": "u" * 191}),
        ("feedback", []),
        ("outcomes", {}),
        ("outcomes", {"outcomeMetrics": [1]}),
        ("outcomes", {"outcomeMetrics": {"m" * 101: 1}}),
        ("outcomes", {"outcomeMetrics": {"m": 1}, "note": 1}),
    ],
)
def test_wrong_bodies_are_refused(server: Caller, stored: dict[str, Any], call: str, body: Any):
    assert_problem(server.post(f"{URL}d1/{call}/", body), 400)
    assert not Feedback.objects.exists()


@pytest.mark.parametrize("call", ["feedback", "outcomes"])
@pytest.mark.parametrize("reference", ["nobody", "4f3c3f6e-0000-4000-8000-000000000000", "a%00b", "x" * 500, "%ff"])
def test_a_decision_that_is_not_there_is_not_found(server: Caller, call: str, reference: str):
    body = {"userFeedback": "CONFIRMED"} if call == "feedback" else {"outcomeMetrics": {"m": 1}}
    assert_problem(server.post(f"{URL}{reference}/{call}/", body), 404)


@pytest.mark.database
def test_an_answer_that_is_no_decision_is_not_found(server: Caller, agent: Agent):
    trace = make_trace(agent, external_id="chat-1")
    for reference in (trace.pk, "chat-1"):
        assert_problem(server.post(f"{URL}{reference}/feedback/", {"userFeedback": "CONFIRMED"}), 404)


def test_an_id_may_hold_a_slash(server: Caller):
    server.post(URL, decision(id="log/2026/7"))
    assert server.post(f"{URL}log/2026/7/outcomes/", {"outcomeMetrics": {"m": 1}}).status_code == 201


@pytest.mark.database
def test_two_agents_with_the_same_id_are_told_apart(server: Caller, stored: dict[str, Any]):
    server.post(URL, decision(agentType="STORER"))
    body = {"userFeedback": "CONFIRMED"}
    assert_problem(server.post(f"{URL}d1/feedback/", body), 400, "FILER, STORER", "agentType")
    named = server.post(f"{URL}d1/feedback/", {**body, "agentType": "storer"})
    assert named.json()["agentType"] == "STORER"


@pytest.mark.database
def test_a_key_of_another_agent_does_not_see_it(stored: dict[str, Any], agent: Agent):
    stranger = Caller(key_for(agent))
    for reference in ("d1", stored["id"]):
        assert_problem(stranger.post(f"{URL}{reference}/feedback/", {"userFeedback": "CONFIRMED"}), 404)


@pytest.mark.parametrize("address", [URL, BULK, f"{URL}d1/feedback/", f"{URL}d1/outcomes/"])
def test_only_servers_may_call(shop: Caller, address: str):
    assert_problem(shop.post(address, {}), 403)
    assert_problem(Caller().post(address, {}), 401)
    assert_problem(Caller(key_for(None)).get(address), 405)
    assert ApiKey.objects.exists()
