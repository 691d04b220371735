from __future__ import annotations

import re
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.fixture
def document() -> dict:
    return Client().get("/api/schema/", headers={"accept": "application/vnd.oai.openapi+json"}).json()


def operations(document: dict) -> dict[str, dict]:
    calls = [call for path in document["paths"].values() for call in path.values()]
    return {call["operationId"]: call for call in calls}


def test_the_document_is_valid_and_complete():
    out = StringIO()
    call_command("spectacular", validate=True, fail_on_warn=True, stdout=out)
    assert "openapi: 3.1.1" in out.getvalue()


def test_every_call_is_described(document: dict):
    assert set(operations(document)) == {
        "list_traces",
        "store_traces",
        "get_trace",
        "get_run",
        "cancel_run",
        "list_feedback",
        "send_feedback",
        "get_feedback",
        "reserve_trace",
        "retract_feedback",
        "retract_rating",
        "rate_entry",
        "sync_ratings",
        "store_decision",
        "store_decisions",
        "judge_decision",
        "observe_decision",
        "confirm_decision",
        "confirm_filing",
        "list_decisions",
        "reward_decisions",
        "count_pending_decisions",
        "reward_pending_decisions",
        "count_pending_outcomes",
        "reward_outcomes",
        "count_tracked_outcomes",
        "reward_tracked_outcomes",
        "decision_stats",
        "compare_decisions",
        "export_decisions",
        "export_decision_file",
        "training_stats",
        "calculate_pending_rewards",
        "score_answer",
        "train_policy",
        "get_policy_run",
        "list_policies",
    }


def test_every_call_wants_a_bearer_key_and_refuses_with_problems(document: dict):
    assert document["components"]["securitySchemes"]["apiKey"]["scheme"] == "bearer"
    for name, call in operations(document).items():
        assert call["security"] == [{"apiKey": []}], name
        refusals = {status: body for status, body in call["responses"].items() if status >= "400"}
        refusals.pop("500", None)  # what N3 answers where a training failed
        assert {"401", "403", "429", "503"} <= set(refusals), name
        assert all(list(body["content"]) == ["application/problem+json"] for body in refusals.values()), name


def test_lists_say_how_to_filter_and_page(document: dict):
    names = {parameter["name"] for parameter in operations(document)["list_traces"]["parameters"]}
    assert names >= {"agent", "source", "session_id", "prompt_key", "rated", "created_after", "limit", "cursor"}


def test_the_docs_page_needs_nothing_that_the_security_policy_forbids():
    page = Client().get("/api/docs/")
    text = page.content.decode()
    assert page.status_code == 200
    assert "'unsafe" not in page["content-security-policy"]
    assert "<style" not in text
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert all(address.startswith("/") for address in re.findall(r"(?:src|href)=\"([^\"]+)\"", text))
    script = Client().get("/api/docs/?script=")
    assert script["content-type"].startswith("application/javascript")
    assert "schema/" in script.content.decode()
