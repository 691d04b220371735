"""Each thing that can be wrong is put wrong, and must be seen, with what to do."""

import json
import os
import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as configured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from django_q.models import Failure, Success

from rl.doctor import Severity, Symptom, data, doctor, machine, models, site
from rl.models import Agent, ApiKey, Deployment, Trace, TrainingRun
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
NOW = timezone.now
Wrong = Callable[..., None]


@pytest.fixture(autouse=True)
def _outside_of_a_browser_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those set it for the whole process, and a check of Django's says rightly that no site should have it."""
    monkeypatch.delenv("DJANGO_ALLOW_ASYNC_UNSAFE", raising=False)


def seen(check: doctor.Check) -> list[Symptom]:
    return [symptom for symptom in check() if symptom.severity != Severity.FINE]


def task(func: str, ended: timedelta, model: type = Success) -> None:
    moment = NOW() - ended
    success = model is Success
    model.objects.create(id=os.urandom(16).hex(), name="x", func=func, started=moment, stopped=moment, success=success)


def a_run(**fields: Any) -> TrainingRun:
    return TrainingRun.objects.create(agent=Agent.objects.create(name="a"), method="dpo", **fields)


def a_key(**fields: Any) -> ApiKey:
    key = ApiKey.create(name="shop", kind="secret")[0]
    ApiKey.objects.filter(pk=key.pk).update(**fields)
    return key


@pytest.mark.process
def test_an_installation_that_is_well_has_no_problem(data_dir: Path, settings):
    settings.BACKUP_DIR = data_dir / "backups"
    settings.BACKUP_DIR.mkdir()
    (settings.BACKUP_DIR / "ratchet-20260101T000000Z.tar").touch()
    task("rl.tasks.supervise_runs", timedelta(seconds=30))
    examined = doctor.examine()
    assert [each for each in examined if each.symptom.severity == Severity.PROBLEM] == []
    assert {each.check for each in examined} == {*doctor.WITHOUT_DATABASE, *doctor.WITH_DATABASE}


@pytest.mark.database
@pytest.mark.process
def test_the_command_ends_with_1_where_something_is_wrong(data_dir: Path, capsys):
    with pytest.raises(CommandError) as caught:
        call_command("doctor", json=True)  # no queue is at work here
    assert caught.value.returncode == 1
    document = json.loads(capsys.readouterr().out)
    assert document["healthy"] is False
    wrong = [check for check in document["checks"] if check["severity"] == "problem"]
    assert [(check["check"], bool(check["fix"])) for check in wrong] == [("queue", True)]


# --- the machine -------------------------------------------------------------------------------------------------------


def test_a_python_that_is_too_new_is_a_problem(monkeypatch):
    monkeypatch.setattr(machine, "sys", SimpleNamespace(version="3.14.1 x", version_info=(3, 14, 1)))
    assert "Python 3.14.1 is not supported" in seen(machine.python)[0].text


def test_a_package_of_another_version_is_a_problem(monkeypatch):
    there = {"django": "5.1", "httpx": "", "torch": ""}
    real = machine._installed_version
    monkeypatch.setattr(machine, "_installed_version", lambda name: there.get(name, real(name)))
    texts = [symptom.text for symptom in seen(machine.packages)]
    assert [text.split(";")[0] for text in texts] == ["django is 5.1", "httpx is missing"]


def test_a_build_of_the_pinned_version_is_that_version(monkeypatch):
    real = machine._installed_version
    monkeypatch.setattr(machine, "_installed_version", lambda name: real(name) + ("+cu130" if name == "torch" else ""))
    assert seen(machine.packages) == []


def test_every_pin_is_read():
    for name in ("requirements.txt", machine.TRAINING):
        text = (configured.BASE_DIR / name).read_text()
        assert len(machine._PIN.findall(text)) == text.count("==")


@pytest.mark.process
def test_a_full_disk_is_a_problem_and_told_once(settings, data_dir: Path):
    settings.BACKUP_DIR = data_dir
    settings.MIN_FREE_BYTES = 10**18
    (symptom,) = seen(machine.disk_space)
    assert (symptom.severity, "less than" in symptom.text) == (Severity.PROBLEM, True)
    assert "MIN_FREE_BYTES" not in " ".join(each.text for each in seen(site.system_checks))


@pytest.mark.process
def test_a_clock_that_went_back_is_a_problem():
    make_trace(Agent.objects.create(name="a"))
    Trace.objects.update(created_at=NOW() + timedelta(hours=1))
    assert "there is a trace from the future" in seen(machine.clock)[0].text


@pytest.mark.database
@pytest.mark.process
def test_a_clock_that_nobody_sets_is_a_warning(tmp_path: Path, monkeypatch):
    (tmp_path / "timedatectl").write_text("#!/bin/sh\necho no\n")
    (tmp_path / "timedatectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert [symptom.severity for symptom in seen(machine.clock)] == [Severity.WARNING]


# --- the site ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"HTTPS": True, "SITE_URL": "http://ratchet.example"}, "is not https"),
        ({"SITE_URL": "https://other.example"}, "does not answer to"),
        ({"ALLOWED_HOSTS": ["*"]}, "any host name"),
        ({"SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https")}, "all clients count as one"),
        ({"HTTPS": True}, "redirects for ever"),
    ],
)
def test_addresses_that_do_not_fit_each_other_are_told(settings, change: dict[str, Any], complaint: str):
    good = {"DEBUG": False, "HTTPS": False, "SITE_URL": "https://ratchet.example", "ALLOWED_HOSTS": ["ratchet.example"]}
    for name, value in {**good, **change}.items():
        setattr(settings, name, value)
    assert complaint in " ".join(symptom.text for symptom in seen(site.addresses))


def test_debug_and_a_simple_key_are_told(settings):
    settings.DEBUG, settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = True, "short", ["older"]
    assert "DEBUG=1" in seen(site.debugging)[0].text
    assert [symptom.severity for symptom in seen(site.secret_key)] == [Severity.WARNING, Severity.PROBLEM]


@pytest.mark.process
def test_what_the_start_up_checks_say_is_told_with_their_hints(settings, tmp_path: Path):
    settings.DATA_DIR = tmp_path / "gone"
    (symptom,) = [each for each in seen(site.system_checks) if "is not writable" in each.text]
    assert (symptom.severity, "DATA_DIR" in symptom.fix) == (Severity.PROBLEM, True)


@pytest.mark.process
def test_what_the_deployment_checks_say_is_told_where_others_come_in(settings):
    settings.DEBUG, settings.SESSION_COOKIE_SECURE = False, False
    assert "SESSION_COOKIE_SECURE" in " ".join(symptom.text for symptom in seen(site.system_checks))


# --- data --------------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_a_missing_migration_is_a_problem():
    MigrationRecorder(connection).migration_qs.filter(app="rl").delete()
    (symptom,) = seen(data.database)
    assert ("rl.0001_squashed_0028_tuning" in symptom.text, symptom.fix) == (True, "manage.py migrate")


@pytest.mark.database
def test_a_database_that_stopped_halfway_before_the_first_release_is_a_problem():
    MigrationRecorder(connection).migration_qs.filter(app="rl", name__gte="0006").delete()
    (symptom,) = seen(data.database)
    assert ("as of rl.0005_episodes" in symptom.text, symptom.fix) == (True, "manage.py migrate, in the release before")


@pytest.mark.database
def test_a_database_of_a_newer_ratchet_is_a_problem():
    MigrationRecorder(connection).migration_qs.create(app="rl", name="9999_future", applied=NOW())
    assert "rl.9999_future is not known here" in seen(data.database)[0].text


@pytest.mark.process
def test_a_database_that_is_gone_is_one_problem_and_ends_the_questions_to_it(data_dir: Path):
    def refuse(execute, sql, params, many, context):
        raise OperationalError("the server is gone")

    with connection.execute_wrapper(refuse):
        examined = doctor.examine()
    wrong = [each for each in examined if each.symptom.severity == Severity.PROBLEM]
    assert [(each.check, each.symptom.text) for each in wrong] == [("database", "the server is gone")]
    assert not {each.check for each in examined} & set(doctor.WITH_DATABASE)


@pytest.mark.parametrize("minutes", [None, 6])
def test_a_queue_that_does_nothing_is_a_problem(minutes: int | None):
    if minutes:
        task("rl.tasks.supervise_runs", timedelta(minutes=minutes))
    (symptom,) = seen(data.queue)
    assert ("the queue has done nothing" in symptom.text, "qcluster" in symptom.fix) == (True, True)


@pytest.mark.database
def test_tasks_that_failed_are_told():
    task("rl.tasks.supervise_runs", timedelta(seconds=1))
    for _ in range(2):
        task("rl.tasks.deliver_answers", timedelta(hours=1), Failure)
    task("rl.tasks.start_run", timedelta(days=2), Failure)
    assert [symptom.text for symptom in seen(data.queue)] == ["rl.tasks.deliver_answers failed 2 times since yesterday"]


def test_a_run_that_is_silent_is_told(settings):
    a_run(state="running", heartbeat_at=NOW() - timedelta(seconds=3 * settings.RUN_HEARTBEAT_TIMEOUT))
    assert "was not heard of since" in seen(data.runs)[0].text


def test_answers_that_wait_and_those_that_cannot_be_stored_are_told(data_dir: Path):
    pending = data_dir / "gateway/pending"
    pending.mkdir(parents=True)
    for name in ("a.json", "b.json", "c.json.broken"):
        (pending / name).touch()
    os.utime(pending / "b.json", (time.time() - 3600, time.time() - 3600))
    texts = [symptom.text for symptom in seen(data.pending_answers)]
    assert texts[0].startswith("1 answers could not be stored")
    assert texts[1] == "2 answers wait for the database, the oldest for 60 minutes"


@pytest.mark.parametrize("days", [None, 3])
def test_backups_that_are_missing_or_old_are_told(settings, tmp_path: Path, days: int | None):
    settings.BACKUP_DIR = tmp_path
    if days:
        backup = tmp_path / "ratchet-20260101T000000Z.tar"
        backup.touch()
        os.utime(backup, (time.time() - days * 86_400,) * 2)
    (symptom,) = seen(data.latest_backup)
    assert re.search(r"no backup in|3 days old", symptom.text)


@pytest.mark.database
def test_keys_that_expire_are_told():
    a_key(expires_at=NOW() + timedelta(days=3))
    a_key(expires_at=NOW() - timedelta(days=3), last_used_at=NOW() - timedelta(hours=1))
    a_key(expires_at=NOW() - timedelta(days=3), last_used_at=NOW() - timedelta(days=9))
    a_key(expires_at=NOW() + timedelta(days=300))
    texts = [symptom.text for symptom in seen(data.keys)]
    assert [re.sub(r" \(.*?\)|\d{4}-.*", "", text) for text in texts] == [
        "the API key shop expires on ",
        "the API key shop expired while it was in use",
    ]


# --- models ------------------------------------------------------------------------------------------------------------


def test_base_models_that_are_not_here_are_told(settings):
    Agent.objects.create(name="a", base_model="/no/such/folder")
    Agent.objects.create(name="b", base_model="small")
    settings.BASE_MODELS = {"small": "nobody/never-downloaded"}
    severities = {symptom.severity: symptom.text for symptom in seen(models.base_models)}
    assert "/no/such/folder" in severities[Severity.PROBLEM]
    assert "nobody/never-downloaded is not on this machine" in severities[Severity.WARNING]


def test_an_ollama_that_is_needed_and_down_is_a_problem(settings):
    settings.OLLAMA_URL = "http://127.0.0.1:9"
    assert seen(models.ollama) == []
    Agent.objects.create(name="a", auto_deploy=True, deploy_target="ollama")
    assert "Ollama is needed and does not answer" in seen(models.ollama)[0].text


@pytest.mark.process
def test_an_ollama_that_answers_is_fine(double):
    Agent.objects.create(name="a", auto_deploy=True, deploy_target="ollama")
    assert [symptom.severity for symptom in models.ollama()] == [Severity.FINE]


def test_a_llama_cpp_server_that_is_down_is_a_problem():
    Deployment.objects.create(agent=Agent.objects.create(name="a"), target="llama_cpp", path="models/a/x.gguf")
    assert "the llama.cpp server of a base is down" in seen(models.llama_cpp)[0].text


@pytest.mark.process
def test_a_check_that_breaks_is_a_problem_itself(monkeypatch, data_dir: Path):
    def broken():
        raise RuntimeError("unforeseen")

    monkeypatch.setitem(doctor.WITHOUT_DATABASE, "python", broken)
    first = doctor.examine()[0]
    assert (first.check, first.symptom.severity) == ("python", Severity.PROBLEM)
    assert "RuntimeError: unforeseen" in first.symptom.text


@pytest.mark.database
def test_several_answers_without_a_judge_are_a_problem_and_unjudged_ones_a_warning(
    monkeypatch: pytest.MonkeyPatch, data_dir: Path
):
    agent = Agent.objects.create(name="a")
    assert seen(models.judges) == []
    Deployment.objects.create(agent=agent, target="ollama", best_of=4)
    (symptom,) = seen(models.judges)
    assert (symptom.severity, "a has no judge yet" in symptom.text) == (Severity.PROBLEM, True)
    monkeypatch.setattr(models.judge_server, "find_problem", lambda agent: "")
    assert seen(models.judges) == []
    slow = {"of": 4, "asked": 4, "unjudged": "the judge did not answer within 5 seconds"}
    make_trace(agent, source="gateway", details={"best_of": slow})
    make_trace(agent, source="gateway", details={"best_of": {"of": 4, "asked": 1, "unjudged": "at temperature 0"}})
    (symptom,) = seen(models.judges)
    assert symptom.severity == Severity.WARNING
    assert symptom.text == f"1 of the last 100 answers of a were not judged: {slow['unjudged']}"
