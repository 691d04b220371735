"""What a process that trains is given, read by such a process."""

import json
import os
from pathlib import Path

import pytest

from rl.models import TrainingRun
from rl.runs import child_environment, supervisor
from tests.waiting import until

PROGRAM = """
import json, os, sys
sys.path.insert(0, {root!r})
os.environ["DJANGO_SETTINGS_MODULE"] = "backend.settings"
from django.conf import settings
print(json.dumps({{
    "first": open("/proc/self/environ").read(), "variables": dict(os.environ), "umask": os.umask(0),
    "SECRET_KEY": settings.SECRET_KEY, "SERVING_KEY": settings.SERVING_KEY, "DATABASE_URL": settings.DATABASE_URL,
    "LEVEL": settings.LOG_LEVEL,
}}), flush=True)
"""
ADDRESS = "sqlite:////nowhere/with-a-password.sqlite3"


@pytest.fixture
def run(agent, data_dir, settings, tmp_path) -> TrainingRun:
    """Whose process says what it sees."""
    (tmp_path / "manage.py").write_text(PROGRAM.format(root=str(settings.BASE_DIR)))
    settings.BASE_DIR, settings.DATABASE_URL = tmp_path, ADDRESS
    return TrainingRun.objects.create(agent=agent, method="dpo", options={"report_to": "wandb"})


def seen_by(run: TrainingRun) -> dict:
    supervisor.spawn(run)
    return json.loads(until(lambda: run.log_path.read_text().strip().endswith("}") and run.log_path.read_text()))


@pytest.mark.process
@pytest.mark.django_db
def test_a_run_sees_what_its_libraries_need_and_no_secret_of_the_site(run, settings, monkeypatch):
    for name in ("HF_HOME", "CUDA_VISIBLE_DEVICES", "https_proxy", "WANDB_API_KEY", "TAVILY_API_KEY", "LOG_LEVEL"):
        monkeypatch.setenv(name, "ERROR" if name == "LOG_LEVEL" else "passed on")
    hidden = ("SECRET_KEY_FALLBACKS", "DATABASE_URL", "REDIS_URL", "AWS_SECRET_ACCESS_KEY", "MLFLOW_TRACKING_TOKEN")
    for name in hidden:
        monkeypatch.setenv(name, "kept back")
    settings.TRAINING_ENVIRONMENT = ["TAVILY_API_KEY"]
    seen = seen_by(run)
    passed = {name for name, value in seen["variables"].items() if value == "passed on"}
    assert passed == {"HF_HOME", "CUDA_VISIBLE_DEVICES", "https_proxy", "WANDB_API_KEY", "TAVILY_API_KEY"}
    assert seen["LEVEL"] == "ERROR", "settings that are no secret go along"
    for told in (seen["first"], json.dumps(seen["variables"])):
        assert "kept back" not in told
        assert settings.SECRET_KEY not in told
        assert ADDRESS not in told
        assert settings.SERVING_KEY not in told
    assert seen["SECRET_KEY"] != settings.SECRET_KEY
    assert (seen["DATABASE_URL"], seen["SERVING_KEY"]) == (ADDRESS, settings.SERVING_KEY)


@pytest.mark.process
@pytest.mark.django_db
def test_a_run_does_not_read_the_env_file_and_writes_for_its_owner_alone(run, settings, monkeypatch, tmp_path):
    (tmp_path / ".env").write_text("REDIS_URL=redis://:kept-back@localhost\n")
    monkeypatch.setenv("ENV_FILE", str(tmp_path / ".env"))
    seen = seen_by(run)
    assert (seen["variables"]["ENV_FILE"], seen["umask"]) == (os.devnull, 0o077)
    assert "kept-back" not in json.dumps(seen)


def test_workers_of_a_launcher_find_the_database_in_a_file_of_their_owner_that_goes_away(tmp_path: Path, settings):
    settings.DATABASE_URL = ADDRESS
    with child_environment.of_workers(tmp_path, needs_database=True) as variables:
        file = Path(variables["DATABASE_URL_FILE"])
        assert (file.read_text(), file.stat().st_mode & 0o777) == (ADDRESS, 0o600)
        assert settings.SECRET_KEY not in json.dumps(variables)
    assert not file.exists()
    with child_environment.of_workers(tmp_path, needs_database=False) as variables:
        assert "DATABASE_URL_FILE" not in variables
