import getpass
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import transaction
from django.test import Client

from rl.base import logs
from rl.models import Agent, ApiKey, AuditEvent, Deployment, TrainingRun
from rl.operations import audit
from rl.operations.audit import Action, Caller, acting_for, record
from rl.serving import promotion, withdrawal
from rl.serving.experiments import lifecycle
from tests.admin.records import make_run, make_version
from tests.serving.experiments.experimenting import make_experiment
from tests.serving.exported import exported

pytestmark = pytest.mark.django_db
PASSWORD = "alice-rates-answers"


def events() -> list[tuple[str, str, str]]:
    """Oldest first, without how the test's own people came to be."""
    rows = AuditEvent.objects.order_by("pk")
    return [(row.actor, row.action, row.target) for row in rows if row.details.get("changes") != "Added."]


@pytest.fixture
def staff(client: Client, bob: User) -> Client:
    client.force_login(bob)
    AuditEvent.objects.all().delete()
    return client


# --- what a row says -----------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_an_event_names_actor_target_agent_address_request_and_run(agent: Agent):
    caller = Caller("key:3 server", "203.0.113.7")
    with acting_for(caller), logs.about(logs.request_id, "abc"), logs.about(logs.run_id, 12):
        record(Action.PROMOTED, make_version(agent), before="base")
    row = AuditEvent.objects.get()
    assert (row.actor, row.address, row.request_id) == ("key:3 server", "203.0.113.7", "abc")
    assert (row.target, row.agent, row.details) == (
        "model version support-chat v40",
        "support-chat",
        {"run": 12, "before": "base"},
    )


def test_what_nobody_asked_for_is_the_commands_or_the_queues(monkeypatch):
    record(Action.CHANGED, "this")
    monkeypatch.setattr(audit, "_process", Caller())
    call_worker()
    record(Action.CHANGED, "that")
    assert [actor for actor, _, _ in events()] == [f"command:{getpass.getuser()}", "queue"]


def call_worker() -> None:
    from django_q.signals import post_spawn

    post_spawn.send(sender="django_q", proc_name="Process-1")


def test_long_and_odd_names_do_not_stop_the_deed():
    with acting_for(Caller("key:1 " + "x\0" * 500, "y" * 500)):
        row = record(Action.CHANGED, "z" * 500)
    assert (len(row.actor), len(row.target), len(row.address)) == (200, 200, 64)


def test_the_event_and_the_deed_are_there_together_or_not_at_all(agent: Agent, data_dir: Path, monkeypatch):
    version = make_version(agent)
    with transaction.atomic():
        promotion.promote(agent, version)
        transaction.set_rollback(True)
    assert events() == []
    monkeypatch.setattr(AuditEvent.objects, "create", lambda **fields: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        promotion.promote(agent, version)
    assert Deployment.champion(agent) is None


# --- people --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["/login/", "/admin/login/"])
def test_signing_in_and_out(client: Client, bob: User, address: str):
    client.post(address, {"username": "bob", "password": "bob-runs-this-place"}, headers={"x-request-id": "r-1"})
    client.post("/logout/")
    assert events() == [("user:bob", "signed_in", "user bob"), ("user:bob", "signed_out", "user bob")]
    row = AuditEvent.objects.get(action="signed_in")
    assert (row.address, row.request_id) == ("127.0.0.1", "r-1")


def test_a_lock_is_one_event_and_keeps_nothing_that_was_typed(client: Client, alice: User):
    for name in ("alice", "typed-into-the-wrong-field"):
        for _ in range(7):
            client.post("/login/", {"username": name, "password": "wrong"})
    assert events() == [("anonymous", "locked_out", "user alice"), ("anonymous", "locked_out", "")]
    assert "wrong-field" not in str(list(AuditEvent.objects.values()))


@pytest.mark.database
def test_passwords_that_are_changed_on_the_page_by_staff_and_by_a_command(staff: Client, alice: User, monkeypatch):
    fresh = {"new_password1": "a-new-one-for-bob", "new_password2": "a-new-one-for-bob"}
    staff.post("/admin/password_change/", {"old_password": "bob-runs-this-place", **fresh})
    by_staff = {"password1": "a-new-one-for-alice", "password2": "a-new-one-for-alice", "usable_password": "true"}
    staff.post(f"/admin/auth/user/{alice.pk}/password/", by_staff)
    monkeypatch.setattr("getpass.getpass", lambda **_: "another-one-for-alice")
    call_command("changepassword", "alice", verbosity=0)
    told = [event for event in events() if event[1] == "password_changed"]
    assert told == [
        ("user:bob", "password_changed", "user bob"),
        ("user:bob", "password_changed", "user alice"),
        (f"command:{getpass.getuser()}", "password_changed", "user alice"),
    ]


@pytest.mark.database
def test_a_sign_in_that_only_makes_the_hash_stronger_is_no_change_of_the_password(
    client: Client, alice: User, settings
):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher", *settings.PASSWORD_HASHERS]
    client.post("/login/", {"username": "alice", "password": PASSWORD})
    assert [action for _, action, _ in events()] == ["signed_in"]


@pytest.mark.database
def test_forms_of_the_admin_and_what_they_delete(staff: Client, alice: User, agent: Agent):
    form = staff.get(f"/admin/auth/user/{alice.pk}/change/").context["adminform"].form
    given = {name: value for name, value in form.initial.items() if value not in (None, False, [])}
    given |= {"is_staff": "on", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    given.pop("user_permissions", None)
    staff.post(f"/admin/auth/user/{alice.pk}/change/", given)
    action = {"action": "delete_selected", "_selected_action": [alice.pk], "post": "yes"}
    staff.post("/admin/auth/user/", action)
    staff.post(f"/admin/rl/agent/{agent.pk}/delete/", {"post": "yes"})
    assert events() == [
        ("user:bob", "changed", "user alice"),
        ("user:bob", "deleted", "user alice"),
        ("user:bob", "deleted", "agent support-chat"),
    ]
    assert AuditEvent.objects.filter(details__changes__icontains="staff status").count() == 1
    assert AuditEvent.objects.get(target="agent support-chat").agent == "support-chat"


# --- keys ----------------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_keys_that_are_made_and_revoked_in_the_admin(staff: Client):
    staff.post("/admin/rl/apikey/add/", {"name": "server", "kind": "secret", "scopes": ["read"]})
    key = ApiKey.objects.get()
    staff.post("/admin/rl/apikey/", {"action": "revoke", "_selected_action": [key.pk]})
    assert events() == [
        ("user:bob", "key_made", f"API key server ({key.start}…)"),
        ("user:bob", "key_revoked", f"API key server ({key.start}…)"),
    ]
    assert AuditEvent.objects.get(action="key_made").details == {"key": key.pk, "kind": "secret", "scopes": ["read"]}


@pytest.mark.database
def test_keys_that_are_made_and_revoked_by_a_command(capsys):
    call_command("api_key", "create", "--name", "server")
    call_command("api_key", "revoke", str(ApiKey.objects.get().pk))
    who = f"command:{getpass.getuser()}"
    assert [event[:2] for event in events()] == [(who, "key_made"), (who, "key_revoked")]


def test_what_a_key_does_is_the_keys(client: Client, agent: Agent, secret_key: str, monkeypatch):
    AuditEvent.objects.all().delete()
    monkeypatch.setattr("rl.scoring.stored.waiting", lambda agent: record(Action.CHANGED, "rewards") and 0)
    headers = {"authorization": f"Bearer {secret_key}"}
    client.post("/api/training/calculate-pending/", {}, content_type="application/json", headers=headers)
    assert events() == [(f"key:{ApiKey.objects.get().pk} server", "changed", "rewards")]


# --- versions, runs, experiments -------------------------------------------------------------------------------------------


@pytest.mark.database
def test_promotions_and_going_back(staff: Client, agent: Agent, data_dir: Path):
    promotion.promote(agent, exported(agent, "v15", data_dir).version)
    promotion.promote(agent, exported(agent, "v25", data_dir).version)
    promotion.promote(agent, agent.versions.get(name="v25"))
    staff.post(f"/admin/rl/agent/{agent.pk}/roll_back/")
    promotion.promote(agent, None)
    who = f"command:{getpass.getuser()}"
    assert events() == [
        (who, "promoted", "model version support-chat v15"),
        (who, "promoted", "model version support-chat v25"),
        ("user:bob", "rolled_back", "model version support-chat v15"),
        (who, "promoted", "base model of support-chat"),
    ]
    befores = list(AuditEvent.objects.order_by("pk").values_list("details__before", flat=True))
    assert befores == ["base", "v15", "v25", "v15"]


@pytest.mark.database
@pytest.mark.process
def test_deployments_that_come_and_go(agent: Agent, data_dir: Path, double):
    version = exported(agent, "v15", data_dir).version
    call_command("deploy_model", "--agent", agent.name, "--version", "v15", "--target", "ollama", verbosity=0)
    withdrawal.stop_serving(agent, version)
    assert [event[1:] for event in events()] == [
        ("deployed", "model version support-chat v15"),
        ("withdrawn", "model version support-chat v15"),
    ]
    assert AuditEvent.objects.get(action="deployed").details["model_name"] == "support-chat:v15"


def test_runs_that_are_cancelled_and_resumed(staff: Client, agent: Agent):
    run = make_run(agent, TrainingRun.State.QUEUED)
    staff.post(f"/runs/{run.pk}/", {"action": "cancel"})
    staff.post(f"/runs/{run.pk}/", {"action": "cancel"})
    staff.post(f"/runs/{run.pk}/", {"action": "resume"})
    assert events() == [
        ("user:bob", "run_cancelled", f"run {run.pk}"),
        ("user:bob", "run_queued", f"run {run.pk}"),
    ]


@pytest.mark.parametrize(
    ("actor", "who"),
    [
        ("user:bob", "bob"),
        ("key:7 my laptop", "the key my laptop"),
        ("command:carol", "carol by a command"),
        ("command", "a command"),
        ("queue", ""),
    ],
)
def test_who_acts_is_put_in_words_for_pages(actor: str, who: str):
    with audit.acting_for(audit.Caller(actor)):
        assert audit.person() == who


def test_experiments_that_start_and_end(staff: Client, agent: Agent):
    experiment = make_experiment(agent, running=False)
    lifecycle.start(experiment)
    staff.post(f"/experiments/{experiment.pk}/", {"action": "stop"})
    assert [(who.partition(":")[0], action) for who, action, _ in events()] == [
        ("command", "experiment_started"),
        ("user", "experiment_ended"),
    ]
