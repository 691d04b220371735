"""What people do edit: agents and keys."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.test import Client

from rl.models import Agent, ApiKey, Experiment
from rl.serving.experiments import lifecycle
from tests.admin.records import make_version
from tests.conftest import make_trace
from tests.serving.experiments.experimenting import arms_of, make_experiment

AGENT = {
    "name": "filer",
    "base_model": "tiny",
    "system_prompt": "",
    "description": "",
    "context_length": "1024",
    "response_length": "256",
    "pair_type": "preference",
    "preset": "default",
    "training_overrides": "",
    "reward_weights": "",
    "min_samples_to_retrain": "100",
    "retrain_interval_hours": "24",
    "export_quantization": "q8_0",
    "decision_weights": "",
    "answer_format": "",
    "label_threshold": "0.6",
    "unsure_below": "0.6",
    "auto_label_threshold": "",
    "gate_margin": "0",
    "promoted_by": "judge",
    "guard_limits": "",
    "deploy_target": "ollama",
    "keep_versions": "3",
    "second_answers": "20",
    "rater_cap": "0.5",
}
QUESTION = {
    "name": "v2 against base",
    "metric": "rating",
    "minimum_effect": "0.1",
    "confidence": "0.95",
    "min_samples": "50",
    "max_samples": "",
    "guard_metric": "",
    "guard_margin": "0",
    "ramp": "[]",
    "automatic": "on",
}


# --- agents -----------------------------------------------------------------------------------------------------------


def test_an_agent_is_made_with_empty_boxes_as_empty_objects(staff: Client) -> None:
    assert staff.post("/admin/rl/agent/add/", AGENT).status_code == 302
    agent = Agent.objects.get()
    assert (agent.training_overrides, agent.reward_weights) == ({}, {})


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("training_overrides", '{"lerning_rate": 1}', "unknown hyper-parameter &#x27;lerning_rate&#x27;"),
        ("training_overrides", "{", "valid JSON"),
        (
            "reward_weights",
            '{"efficency": 1}',
            "unknown reward &#x27;efficency&#x27; (did you mean efficiency?); known",
        ),
        ("reward_weights", '{"efficiency": -1}', "must be a number from 0 (off) to 100, not -1"),
        ("reward_weights", "[1]", "must be a JSON object of reward names and weights"),
        ("decision_weights", '{"someday": {}}', "unknown time scale &#x27;someday&#x27;; known: immediate"),
        ("decision_weights", '{"delayed": {"rework": "much"}}', "the weight of delayed.rework must be a number"),
        ("group_by", "language; plan", "&#x27;language; plan&#x27; is not a key"),
        ("name", "../etc", "name"),
        ("export_quantization", "q9", "q9"),
    ],
)
def test_wrong_values_are_refused_beside_their_field(staff: Client, field: str, value: str, problem: str) -> None:
    answer = staff.post("/admin/rl/agent/add/", {**AGENT, field: value})
    assert answer.status_code == 200
    assert problem in str(answer.context["adminform"].form.errors[field])
    assert not Agent.objects.exists()


def test_a_judge_is_chosen_among_those_of_the_operator(staff: Client, settings, tmp_path: Path) -> None:
    judges = tmp_path / "judges.yaml"
    judges.write_text("careful: {url: http://127.0.0.1:8000/v1, model: qwen}")
    settings.JUDGES_FILE = str(judges)
    refused = staff.post("/admin/rl/agent/add/", {**AGENT, "judge": "http://example.com/v1"})
    assert "is not one of the available choices" in refused.content.decode()
    assert staff.post("/admin/rl/agent/add/", {**AGENT, "judge": "careful"}).status_code == 302
    assert Agent.objects.get().judge == "careful"
    judges.write_text("careful: {}")
    page = staff.get(f"/admin/rl/agent/{Agent.objects.get().pk}/change/").content.decode()
    assert "careful" in page
    assert "needs url" in page


def test_the_page_shows_the_default_weights_beside_the_agents_own(staff: Client) -> None:
    agent = Agent.objects.create(name="Librarian", decision_weights={"delayed": {"conflictPrevention": 1.0}})
    text = staff.get(f"/admin/rl/agent/{agent.pk}/change/").content.decode()
    assert "<th>code_execution</th><td>2.0</td>" in text
    assert "<th>delayed: conflictPrevention</th><td>2.0</td>" in text
    assert "<th>immediate: userFeedback</th><td>1.0</td>" in text


def test_an_agent_with_answers_cannot_be_deleted(staff: Client, agent: Agent) -> None:
    make_trace(agent)
    assert staff.post(f"/admin/rl/agent/{agent.pk}/delete/", {"post": "yes"}).status_code == 403
    empty = Agent.objects.create(name="empty")
    assert staff.post(f"/admin/rl/agent/{empty.pk}/delete/", {"post": "yes"}).status_code == 302
    assert list(Agent.objects.all()) == [agent]


def test_agents_cannot_be_deleted_by_the_list(staff: Client, agent: Agent) -> None:
    assert "delete_selected" not in staff.get("/admin/rl/agent/").content.decode()


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_new_key_is_shown_once(staff: Client) -> None:
    fields = {
        "name": "shop",
        "kind": "publishable",
        "agent": "",
        "allowed_origins": "https://a.example\nhttps://b.example",
    }
    text = staff.post("/admin/rl/apikey/add/", fields, follow=True).content.decode()
    key = text.partition('<code class="new-key">')[2].partition("<")[0]
    row = ApiKey.find(key)
    assert row is not None
    assert row.allowed_origins == ["https://a.example", "https://b.example"]
    for address in ("/admin/rl/apikey/", f"/admin/rl/apikey/{row.pk}/change/", "/admin/"):
        again = staff.get(address).content.decode()
        assert key not in again
        assert row.digest not in again


@pytest.mark.parametrize(
    ("origins", "problem"),
    [("", "at least one origin"), ("shop.example", "is not an origin"), ("https://a.example/x", "path")],
)
def test_origins_are_checked(staff: Client, origins: str, problem: str) -> None:
    fields = {"name": "shop", "kind": "publishable", "agent": "", "allowed_origins": origins}
    answer = staff.post("/admin/rl/apikey/add/", fields)
    assert problem in str(answer.context["adminform"].form.errors["allowed_origins"])
    assert not ApiKey.objects.exists()


@pytest.mark.database
def test_what_a_secret_key_may_do_is_ticked(staff: Client) -> None:
    page = staff.get("/admin/rl/apikey/add/").content.decode()
    assert page.count('name="scopes"') == len(ApiKey.Scope.values)
    assert len(re.findall(r'name="scopes" value="(?:ingest|read)"[^>]* checked', page)) == 2
    fields = {"name": "trainer", "kind": "secret", "agent": "", "scopes": ["read", "train"]}
    expiry = {"expires_at_0": "2107-01-31", "expires_at_1": "00:00:00"}
    assert staff.post("/admin/rl/apikey/add/", {**fields, **expiry}).status_code == 302
    row = ApiKey.objects.get()
    assert row.scopes == ["read", "train"]
    assert row.expires_at == datetime(2107, 1, 31, tzinfo=UTC)
    assert "read, train" in staff.get("/admin/rl/apikey/").content.decode()
    staff.post(f"/admin/rl/apikey/{row.pk}/change/", {"name": "n", "allowed_origins": "", "scopes": ["deploy"]})
    row.refresh_from_db()
    assert (row.name, row.scopes) == ("n", ["read", "train"])


@pytest.mark.database
@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"kind": "secret"}, "scopes"),
        ({"kind": "secret", "scopes": ["root"]}, "scopes"),
        ({"kind": "secret", "scopes": ["read"], "expires_at_0": "2020-01-01", "expires_at_1": "00:00"}, "expires_at"),
    ],
)
def test_scopes_and_expiry_are_checked(staff: Client, fields: dict, name: str) -> None:
    answer = staff.post("/admin/rl/apikey/add/", {"name": "x", "agent": "", "allowed_origins": "", **fields})
    assert answer.context["adminform"].form.errors[name]
    assert not ApiKey.objects.exists()


@pytest.mark.database
def test_a_key_keeps_its_kind_and_its_digest_when_its_name_changes(staff: Client) -> None:
    row, key = ApiKey.create(name="server", kind="secret")
    fields = {"name": "new name", "kind": "publishable", "digest": "0", "allowed_origins": ""}
    assert staff.post(f"/admin/rl/apikey/{row.pk}/change/", fields).status_code == 302
    found = ApiKey.find(key)
    assert found is not None
    assert (found.name, found.kind) == ("new name", "secret")


def test_keys_are_revoked_and_never_deleted(staff: Client) -> None:
    row, key = ApiKey.create(name="server", kind="secret")
    fields = {"action": "revoke", "_selected_action": [row.pk]}
    assert "1 keys revoked" in staff.post("/admin/rl/apikey/", fields, follow=True).content.decode()
    assert ApiKey.find(key) is None
    assert staff.post(f"/admin/rl/apikey/{row.pk}/delete/", {"post": "yes"}).status_code == 403


def filled(agent: Agent, **changes: object) -> dict[str, object]:
    arms = {
        "arms-TOTAL_FORMS": "2",
        "arms-INITIAL_FORMS": "0",
        "arms-0-version": make_version(agent).pk,
        "arms-0-weight": "1",
        "arms-1-version": "",
        "arms-1-weight": "2",
        "arms-1-is_control": "on",
    }
    return {"agent": agent.pk, **QUESTION, **arms, **changes}


def test_a_draft_is_made_here_and_can_be_started(staff: Client, agent: Agent) -> None:
    assert staff.post("/admin/rl/experiment/add/", filled(agent)).status_code == 302
    experiment = Experiment.objects.get()
    assert (experiment.state, experiment.started_at) == ("draft", None)
    assert sorted(arm.weight for arm in experiment.arms.all()) == [1.0, 2.0]
    lifecycle.start(experiment)
    assert experiment.state == "running"


@pytest.mark.parametrize(
    ("field", "value"), [("metric", "speed"), ("ramp", '[{"hours": 3}]'), ("confidence", "1"), ("min_samples", "1")]
)
def test_wrong_settings_are_refused_beside_their_field(staff: Client, agent: Agent, field: str, value: str) -> None:
    answer = staff.post("/admin/rl/experiment/add/", filled(agent, **{field: value}))
    assert answer.status_code == 200
    assert field in answer.context["adminform"].form.errors
    assert not Experiment.objects.exists()


@pytest.mark.database
def test_the_state_is_not_changed_here(staff: Client, agent: Agent) -> None:
    staff.post("/admin/rl/experiment/add/", filled(agent, state="running"))
    assert Experiment.objects.get().state == "draft"


@pytest.mark.database
def test_of_a_started_experiment_only_its_ending_by_itself_is_changed(staff: Client, agent: Agent) -> None:
    experiment = make_experiment(agent)
    control, _ = arms_of(experiment)
    fields = filled(agent, name="other", minimum_effect="0.5", **{"arms-TOTAL_FORMS": "0"})
    del fields["automatic"]
    assert staff.post(f"/admin/rl/experiment/{experiment.pk}/change/", fields).status_code == 302
    experiment.refresh_from_db()
    assert (experiment.name, experiment.minimum_effect, experiment.automatic) == ("first", 0.1, False)
    assert experiment.arms.count() == 2
    assert control.weight == 1


def test_it_leads_to_the_page_of_the_experiment(staff: Client, agent: Agent) -> None:
    experiment = make_experiment(agent)
    for address in ("/admin/rl/experiment/", f"/admin/rl/experiment/{experiment.pk}/change/"):
        assert f'href="/experiments/{experiment.pk}/"' in staff.get(address).content.decode()
