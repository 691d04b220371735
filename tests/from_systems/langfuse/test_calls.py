"""What Langfuse's SDKs send and get back; they themselves run in tests/commands/test_otlp_clients.py."""

import base64
import gzip
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from rl.collect.otlp import PROTOBUF
from rl.models import Agent, Feedback, PendingSpan, Trace
from tests.collect.otlp.make_spans import body, chat, span
from tests.web.api.conftest import key_for

pytestmark = pytest.mark.django_db
TRACE, SPAN = f"{1:032x}", f"{1:016x}"


def call(key: str, path: str, sent: Any = None, user: str = "shop", **headers: str) -> HttpResponse:
    basic = base64.b64encode(f"{user}:{key}".encode()).decode()
    client = Client(headers={"authorization": f"Basic {basic}", **headers})
    if sent is None:
        return client.get(f"/api/public/{path}")
    media_type = PROTOBUF if isinstance(sent, bytes) else "application/json"
    return client.post(f"/api/public/{path}", sent, content_type=media_type)


def score(name: str = "user-feedback", value: Any = 1, **more: Any) -> dict[str, Any]:
    return {"id": "s1", "traceId": TRACE, "name": name, "value": value, "dataType": "BOOLEAN", **more}


def deliver(key: str, **more: Any) -> None:
    answer = call(key, "otel/v1/traces", gzip.compress(body(span(chat()))), **{"content-encoding": "gzip", **more})
    assert (answer.status_code, answer.content) == (200, b"")


def test_the_public_key_names_the_agent_and_the_secret_key_lets_in(secret_key: str):
    deliver(secret_key)
    assert Trace.objects.get().agent.name == "shop"


def test_a_public_key_of_langfuse_itself_names_nobody(secret_key: str):
    deliver(secret_key, user="pk-lf-1")
    assert Trace.objects.get().agent.name == "support-chat"


def test_a_key_that_is_bound_to_an_agent_stores_for_it(agent: Agent):
    deliver(key_for(agent))
    assert Trace.objects.get().agent == agent


@pytest.mark.parametrize("key", ["", "sk_unknown"])
@pytest.mark.parametrize("path", ["projects", "otel/v1/traces", "scores", "ingestion"])
def test_a_stranger_is_refused(key: str, path: str):
    assert call(key, path, None if path == "projects" else {}).status_code == 401


def test_a_header_that_is_no_basic_authentication_is_refused():
    for written in ("Basic", "Basic !!", "Basic " + base64.b64encode(b"\xff\xfe").decode()):
        assert Client(headers={"authorization": written}).get("/api/public/projects").status_code == 401


def test_the_check_of_the_keys_finds_one_project(secret_key: str, agent: Agent):
    for key, name in ((secret_key, "shop"), (key_for(agent), agent.name)):
        (project,) = call(key, "projects").json()["data"]
        assert (project["name"], {*project}) == (name, {"id", "name", "organization", "metadata"})


@pytest.mark.database
@pytest.mark.parametrize("first", ["answer", "score"])
def test_a_score_is_a_rating_of_the_answer_whichever_comes_first(secret_key: str, first: str):
    if first == "answer":
        deliver(secret_key)
    for value in (0, 1, 1):
        answer = call(secret_key, "scores", [score(value=value, observationId=SPAN, comment="nice")])
        assert (answer.status_code, answer.json()) == (202, {"message": "Accepted"})
    if first == "score":
        assert PendingSpan.objects.count() == 2
        deliver(secret_key)
    rating = Feedback.objects.get(is_current=True)
    assert (rating.kind, rating.scale, rating.value, rating.notes) == ("rating", "thumb", 1, "nice")
    assert (rating.rater, rating.trace) == ("langfuse:userfeedback", Trace.objects.get())
    assert not PendingSpan.objects.exists()


def test_a_score_of_a_trace_is_one_of_its_last_answer(secret_key: str):
    spans = [span(chat(said="First."), id=1), span(chat("And now?", "Last."), id=2, at=1)]
    call(secret_key, "otel/v1/traces", body(*spans))
    call(secret_key, "scores", [score()])
    assert Feedback.objects.get().trace.response == "Last."


def test_other_numbers_are_outcomes(secret_key: str):
    deliver(secret_key)
    call(secret_key, "scores", [score("latency", 0.4, dataType="NUMERIC")])
    assert (Feedback.objects.get().kind, Feedback.objects.get().metric) == ("outcome", "latency")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (score(dataType="NUMERIC"), "BOOLEAN"),
        (score(traceId="x"), "traceId"),
        (score(observationId="x"), "observationId"),
        (score(value="perhaps", dataType="CATEGORICAL"), "no word for good or bad"),
        ("x", "object"),
    ],
)
def test_a_score_that_says_nothing_is_refused_with_the_reason(secret_key: str, wrong: Any, words: str):
    deliver(secret_key)
    answer = call(secret_key, "scores", [score(), wrong])
    assert (answer.status_code, answer.json()["accepted"], answer.json()["rejected"]) == (207, 1, 1)
    assert words in answer.json()["errors"][0]["message"]
    assert call(secret_key, "scores", {"a": 1} if wrong == "x" else wrong).status_code == 400


def test_one_score_alone_is_answered_with_its_id(secret_key: str):
    deliver(secret_key)
    assert call(secret_key, "scores", score()).json() == {"id": "s1"}


def test_a_thumb_of_librechat_is_a_rating(secret_key: str):
    """As it writes them: a name of its own, one at a time."""
    deliver(secret_key)
    thumb = score(value=0, comment="not_helpful", metadata={"messageId": "m1", "rating": "thumbsDown"})
    assert call(secret_key, "scores", {**thumb, "id": f"feedback-{TRACE}"}).json() == {"id": f"feedback-{TRACE}"}
    assert (Feedback.objects.get().value, Feedback.objects.get().notes) == (0, "not_helpful")


def test_scores_need_an_agent(secret_key: str):
    answer = call(secret_key, "scores", [score()], user="pk-lf-1")
    assert (answer.status_code, "LANGFUSE_PUBLIC_KEY" in answer.json()["detail"]) == (400, True)


def test_of_events_scores_are_taken_and_the_others_told_another_way(secret_key: str):
    deliver(secret_key)
    events = [
        {"id": "e1", "type": "score-create", "body": score()},
        {"id": "e2", "type": "generation-create", "body": {}},
        {"id": "e3", "type": "score-create", "body": score(traceId="")},
    ]
    answer = call(secret_key, "ingestion", {"batch": events})
    assert (answer.status_code, answer.json()["successes"]) == (207, [{"id": "e1", "status": 201}])
    assert [error["id"] for error in answer.json()["errors"]] == ["e2", "e3"]
    assert "@langfuse/otel" in answer.json()["errors"][0]["message"]
    assert Feedback.objects.count() == 1


@pytest.mark.parametrize("sent", [{"batch": 1}, {"batch": [1]}, [], {}])
def test_a_body_without_events_is_refused(secret_key: str, sent: Any):
    assert call(secret_key, "ingestion", sent).status_code == 400


def test_more_scores_than_a_call_may_have_are_refused(secret_key: str):
    assert call(secret_key, "scores", [score()] * 1001).status_code == 400
    assert call(secret_key, "ingestion", {"batch": [{}] * 1001}).status_code == 400
