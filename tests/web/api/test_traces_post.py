import json
import threading
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse

from rl.collect.feedback import tokens
from rl.models import Agent, ModelVersion, Trace
from tests.web.api.conftest import Caller, assert_problem, run_together

URL = "/api/v1/traces/"
pytestmark = [pytest.mark.database, pytest.mark.django_db]


@pytest.fixture
def body(agent: Agent) -> dict:
    return {"agent": agent.name, "prompt": "Where is my parcel?", "response": "On its way."}


def test_a_trace_is_stored_and_given_back(server: Caller, body: dict, version: ModelVersion):
    full = {
        **body,
        "prompt": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Where is it?"}],
        "external_id": "chat-1",
        "model_version": "v25",
        "session_id": "s1",
        "tool_calls": [{"tool_name": "track", "success": True}],
        "reasoning_steps": [{"content": "look it up"}],
        "tasks": [{"task_id": "1"}],
        "state": {"open": 3},
        "action": ["reply"],
        "details": {"channel": "mail"},
        "tokens_in": 12,
        "tokens_out": 3,
        "cost": 0.002,
        "duration_ms": 812,
        "occurred_at": "2026-01-02T03:04:05Z",
    }
    response = server.post(URL, full)
    assert response.status_code == 201
    answer = response.json()
    assert {name: answer[name] for name in full} == full
    trace = Trace.objects.get()
    assert (str(trace.pk), trace.model_version, trace.source) == (answer["id"], version, "api")
    assert (trace.state, trace.tool_calls, trace.duration_ms) == ({"open": 3}, full["tool_calls"], 812)
    assert answer["prompt_key"] == trace.prompt_key != ""


def test_a_text_prompt_becomes_one_user_message(server: Caller, body: dict):
    assert server.post(URL, body).json()["prompt"] == [{"role": "user", "content": "Where is my parcel?"}]


def test_the_same_prompt_gets_the_same_prompt_key_however_it_is_written(server: Caller, body: dict):
    keys = {
        server.post(URL, {**body, "prompt": prompt}).json()["prompt_key"]
        for prompt in ("Where?", [{"role": "user", "content": "Where?"}], [{"content": "Where?", "role": "user"}])
    }
    assert len(keys) == 1


def test_the_agent_is_found_whatever_the_case(server: Caller, body: dict):
    assert server.post(URL, {**body, "agent": "Support-CHAT"}).json()["agent"] == "support-chat"


def test_posting_the_same_external_id_again_answers_with_the_first(server: Caller, body: dict):
    first = server.post(URL, {**body, "external_id": "chat-1"})
    again = server.post(URL, {**body, "external_id": "chat-1", "response": "something else"})
    assert (first.status_code, again.status_code) == (201, 200)
    stored, answered = first.json(), again.json()
    subjects = [tokens.read(answer.pop("token")) for answer in (stored, answered)]  # signed anew, each with its second
    assert subjects[0] == subjects[1]
    assert answered == stored
    assert Trace.objects.count() == 1


def test_two_agents_may_use_the_same_external_id(server: Caller, body: dict, other_agent: Agent):
    for name in (body["agent"], other_agent.name):
        assert server.post(URL, {**body, "agent": name, "external_id": "1"}).status_code == 201


def test_traces_without_an_external_id_are_all_stored(server: Caller, body: dict):
    assert [server.post(URL, body).status_code for _ in range(2)] == [201, 201]
    assert Trace.objects.count() == 2


def test_an_action_may_stand_for_the_response(server: Caller, body: dict):
    del body["response"]
    assert_problem(server.post(URL, body), 400, "/response")
    assert server.post(URL, {**body, "action": {"swimlane": "Project"}}).status_code == 201


def test_an_unknown_agent_is_not_found_and_told_how_to_make_one(server: Caller, body: dict):
    assert_problem(server.post(URL, {**body, "agent": "nobody"}), 404, "nobody", "admin")


def test_a_version_that_the_agent_has_not_is_refused(server: Caller, body: dict, other_agent: Agent):
    ModelVersion.objects.create(agent=other_agent, name="v7", base_model="tiny", feedback_count=7)
    assert_problem(server.post(URL, {**body, "model_version": "v7"}), 400, "/model_version", "v7")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"prompt": ""}, "/prompt"),
        ({"prompt": []}, "/prompt"),
        ({"prompt": 7}, "/prompt"),
        ({"prompt": None}, "/prompt"),
        ({"prompt": ["hello"]}, "/prompt/0"),
        ({"prompt": [{"role": "user", "content": "a"}, {"role": "king", "content": "b"}]}, "/prompt/1"),
        ({"prompt": [{"role": "user", "content": None}]}, "/prompt/0"),
        ({"prompt": [{"role": "user", "content": "a", "name": "x"}]}, "/prompt/0"),
        ({"response": 5}, "/response"),
        ({"response": ""}, "/response"),
        ({"agent": ["support-chat"]}, "/agent"),
        ({"external_id": ""}, "/external_id"),
        ({"external_id": "x" * 201}, "/external_id"),
        ({"tokens_in": -1}, "/tokens_in"),
        ({"tokens_in": 1.5}, "/tokens_in"),
        ({"tokens_out": 2**31}, "/tokens_out"),
        ({"duration_ms": True}, "/duration_ms"),
        ({"cost": "free"}, "/cost"),
        ({"cost": -1}, "/cost"),
        ({"details": []}, "/details"),
        ({"tool_calls": {}}, "/tool_calls"),
        ({"tasks": [1]}, "/tasks"),
        ({"occurred_at": "yesterday"}, "/occurred_at"),
        ({"occurred_at": "0001-01-01T00:00:00+14:00"}, "/occurred_at"),
        ({"occurred_at": 5}, "/occurred_at"),
        ({"respones": "misspelt"}, "/respones"),
        ({"a/b~c": 1}, "/a~1b~0c"),
    ],
)
def test_what_is_wrong_is_pointed_at(server: Caller, body: dict, change: dict, pointer: str):
    problem = assert_problem(server.post(URL, {**body, **change}), 400)
    assert pointer in [error["pointer"] for error in problem["errors"]]
    assert not Trace.objects.exists()


# --- lists -------------------------------------------------------------------------------------------------------------


def test_a_list_is_answered_item_by_item(server: Caller, body: dict):
    stored = server.post(URL, {**body, "external_id": "old"}).json()["id"]
    items = [
        {**body, "external_id": "new"},
        {**body, "external_id": "old"},
        {**body, "agent": "nobody"},
        {**body, "prompt": []},
        "no object",
        {**body, "external_id": "new"},
        {**body, "model_version": "v9"},
    ]
    response = server.post(URL, items)
    assert response.status_code == 207
    results = response.json()["results"]
    assert [result["status"] for result in results] == [201, 200, 404, 400, 400, 200, 400]
    assert results[1]["id"] == stored
    assert results[5]["id"] == results[0]["id"]
    assert results[3]["problem"]["errors"][0]["pointer"] == "/prompt"
    assert Trace.objects.count() == 2


def test_a_list_posted_again_stores_nothing(server: Caller, body: dict):
    items = [{**body, "external_id": str(number)} for number in range(5)]
    first, again = (server.post(URL, items).json()["results"] for _ in range(2))
    assert {result["status"] for result in again} == {200}
    assert [result["id"] for result in again] == [result["id"] for result in first]


@pytest.mark.parametrize("count", [0, 1001])
def test_a_list_has_one_to_a_thousand_items(server: Caller, body: dict, count: int):
    assert_problem(server.post(URL, [body] * count), 400, "1 to 1000")
    assert not Trace.objects.exists()


def test_a_thousand_traces_are_stored_at_once(server: Caller, body: dict, version: ModelVersion):
    items = [{**body, "external_id": str(number), "model_version": "v25"} for number in range(1000)]
    results = server.post(URL, items).json()["results"]
    assert {result["status"] for result in results} == {201}
    assert Trace.objects.filter(model_version=version).count() == 1000


def test_a_longer_list_needs_no_more_queries(
    server: Caller, body: dict, version: ModelVersion, django_assert_num_queries
):
    server.get(URL)  # writes when the key was used
    for count in (2, 20):
        items = [{**body, "external_id": f"{count}-{n}", "model_version": "v25"} for n in range(count)]
        with django_assert_num_queries(7):  # key, agents, versions, known ids, begin, insert, commit
            server.post(URL, items)


def test_one_trace_costs_five_queries(server: Caller, body: dict, django_assert_num_queries):
    server.get(URL)
    with django_assert_num_queries(5):  # key, agent, begin, insert, commit
        server.post(URL, body)


@pytest.mark.django_db(transaction=True)
def test_senders_who_race_store_one_trace(server: Caller, body: dict):
    barrier, answers = threading.Barrier(5), []

    def send() -> None:
        try:
            barrier.wait(timeout=60)
            for number in range(5):
                answers.append(server.post(URL, {**body, "external_id": str(number)}).status_code)
        finally:
            connection.close()

    run_together(send, 5)
    assert sorted(answers) == [200] * 20 + [201] * 5
    assert Trace.objects.count() == 5


def test_what_is_sent_again_with_its_own_name_is_stored_once(server: Caller, agent: Agent):
    one = {"agent": "support-chat", "prompt": "Hello?", "response": "Hello."}
    headers = {"idempotency-key": "today, the first"}

    def send(body: Any, **headers: str) -> HttpResponse:
        return server.client.post(URL, json.dumps(body), content_type="application/json", headers=headers)

    sent = [send(one, **headers) for _ in range(2)]
    assert [answer.status_code for answer in sent] == [201, 200]
    assert sent[0].json()["id"] == sent[1].json()["id"]
    both = [send([one, {**one, "external_id": "own"}], **headers) for _ in range(2)]
    assert [[item["status"] for item in answer.json()["results"]] for answer in both] == [[201, 201], [200, 200]]
    assert both[0].json()["results"][1]["external_id"] == "own"
    assert send(one).status_code == send(one).status_code == 201
    assert Trace.objects.count() == 5
