import re
from io import StringIO
from urllib.parse import quote

import pytest
import yaml
from django.core.management import call_command
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

pytestmark = pytest.mark.django_db


JSON = {"accept": "application/vnd.oai.openapi+json"}


@pytest.fixture
def reader(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


@pytest.fixture
def document(reader: Client) -> dict:
    return reader.get("/api/schema/", headers=JSON).json()


def test_only_people_who_are_signed_in_and_secret_keys_read_the_description(
    reader: Client, settings, secret_key: str
) -> None:
    stranger, secret = Client(), {**JSON, "authorization": f"Bearer {secret_key}"}
    for headers in (JSON, {}):
        refused = stranger.get("/api/schema/", headers=headers)
        assert (refused.status_code, refused["content-type"]) == (401, "application/problem+json")
        assert refused.json()["status"] == 401
    for page in ("/api/docs/", "/api/docs/?script="):
        assert stranger.get(page)["Location"] == f"/login/?next={quote(page)}"
    assert stranger.get("/api/schema/", headers=secret).status_code == 200
    assert reader.get("/api/schema/", headers=JSON).status_code == 200
    settings.OPEN_API_DOCS = True
    assert stranger.get("/api/schema/", headers=JSON).status_code == 200
    assert stranger.get("/api/docs/").status_code == 200


def test_each_form_of_the_description_is_written_once(reader: Client, monkeypatch) -> None:
    forms = {accept: reader.get("/api/schema/", headers={"accept": accept}) for accept in ("*/*", JSON["accept"])}
    monkeypatch.setattr(SchemaGenerator, "get_schema", lambda *_, **__: pytest.fail("written again"))
    for accept, first in forms.items():
        again = reader.get("/api/schema/", headers={"accept": accept})
        assert again.content == first.content
        assert again["content-type"] == first["content-type"]
    assert yaml.safe_load(forms["*/*"].content) == forms[JSON["accept"]].json()


def test_a_publishable_key_does_not_read_the_description(publishable_key: str) -> None:
    headers = {**JSON, "authorization": f"Bearer {publishable_key}", "origin": "https://shop.example"}
    assert Client().get("/api/schema/", headers=headers).status_code == 403


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
        "follow_run",
        *("list_agents", "get_agent", "list_experiments", "get_experiment", "list_runs", "start_run"),
        "cancel_run",
        "list_versions",
        "get_version",
        "serve_version",
        "promote_version",
        "roll_back",
        "instruct",
        "list_feedback",
        "list_choices",
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


def test_calls_of_other_systems_stand_last(document: dict):
    order = [tag["name"] for tag in document["tags"]]
    assert order[:2] == ["traces", "feedback"]
    assert order[-2:] == ["decisions", "policies"]
    assert {tag for call in operations(document).values() for tag in call["tags"]} == set(order)
    assert "gateway" in document["info"]["description"]


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


def test_the_docs_page_needs_nothing_that_the_security_policy_forbids(reader: Client):
    page = reader.get("/api/docs/")
    text = page.content.decode()
    assert page.status_code == 200
    assert "'unsafe" not in page["content-security-policy"]
    assert "<style" not in text
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert all(address.startswith("/") for address in re.findall(r"(?:src|href)=\"([^\"]+)\"", text))
    script = reader.get("/api/docs/?script=")
    assert script["content-type"].startswith("application/javascript")
    assert "schema/" in script.content.decode()
