import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

BASE = Path(settings.BASE_DIR)


def start(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Loads backend.settings in a fresh process that sees only these variables."""
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    program = "import backend.settings as s; print(s.DEBUG)"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=BASE,
        env={**keep, "ENV_FILE": os.devnull, "DATA_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


PRODUCTION = {"SECRET_KEY": "x" * 50, "ALLOWED_HOSTS": "ratchet.example"}


@pytest.mark.process
def test_it_starts_with_a_secret_key_and_hosts(tmp_path):
    assert start(tmp_path, **PRODUCTION).stdout.strip() == "False"


@pytest.mark.process
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"SECRET_KEY": ""}, "SECRET_KEY is not set"),
        ({"ALLOWED_HOSTS": ""}, "ALLOWED_HOSTS is not set"),
        ({"DEBUG": "ture"}, "DEBUG='ture' is neither true nor false"),
        ({"QUEUE_WORKERS": "many"}, "QUEUE_WORKERS='many' is not a whole number"),
        ({"QUEUE_WORKERS": "0"}, "QUEUE_WORKERS=0 is not between 1 and 64"),
        ({"DATABASE_URL": "mysql://root@localhost/x"}, "DATABASE_URL must start with postgres:// or sqlite:///"),
        ({"SITE_URL": "ratchet.example"}, "SITE_URL='ratchet.example' is not an address"),
        ({"REDIS_URL": "http://x"}, "REDIS_URL must start with redis://"),
        ({"CUSTOM_REWARDS": "my.package.Reward"}, "CUSTOM_REWARDS: 'my.package.Reward' is not written as name=value"),
        ({"BASE_MODELS": "Qwen/Qwen2.5-0.5B"}, "BASE_MODELS: 'Qwen/Qwen2.5-0.5B' is not written as name=value"),
        ({"INFERENCE_SERVERS": "gpu=gpu:8000"}, "INFERENCE_SERVERS='gpu:8000' is not an address"),
        ({"COMMAND_CENTER_ORIGINS": "*"}, "COMMAND_CENTER_ORIGINS: '*' is not an origin"),
        ({"COMMAND_CENTER_ORIGINS": "http://a.example/="}, "is not an origin as browsers write it"),
        ({"TRAINING_HOURS": "22"}, "TRAINING_HOURS='22' is not a part of a day"),
        ({"TRAINING_HOURS": "25-6"}, "TRAINING_HOURS='25-6' is not a part of a day"),
        ({"DATA_DIR": "/proc/ratchet"}, "DATA_DIR=/proc/ratchet cannot be made"),
        ({"TRAINING_ENVIRONMENT": "HF_HOME,SECRET_KEY"}, "TRAINING_ENVIRONMENT: SECRET_KEY is Ratchet's own"),
        ({"TRAINING_ENVIRONMENT": "a b"}, "TRAINING_ENVIRONMENT: 'a b' is not the name of an environment variable"),
        ({"ENV_FILE": "/no/such/.env"}, "ENV_FILE=/no/such/.env does not exist"),
        ({"SECRET_KEY": "", "SECRET_KEY_FILE": "/no/such/file"}, "SECRET_KEY_FILE=/no/such/file cannot be read"),
    ],
)
def test_a_wrong_value_stops_the_start_and_names_the_variable(tmp_path, change, complaint):
    result = start(tmp_path, **{**PRODUCTION, **change})
    assert result.returncode != 0
    assert complaint in result.stderr


@pytest.mark.process
def test_a_secret_may_come_from_a_file(tmp_path):
    (tmp_path / "key").write_text("from-a-file" * 5 + "\n")
    result = start(tmp_path, ALLOWED_HOSTS="x", SECRET_KEY_FILE=str(tmp_path / "key"))
    assert result.returncode == 0, result.stderr


def test_the_example_lists_every_variable_and_no_other():
    listed = set(re.findall(r"^([A-Z_]+)=", (BASE / ".env.example").read_text(), re.MULTILINE))
    code = (BASE / "backend" / "settings.py").read_text()
    readers = "address|addresses|text|boolean|integer|texts|one_of|origins|secrets?|variables|hours"
    read = set(re.findall(rf"\b(?:{readers})\(\s*\"([A-Z_]+)\"", code))
    read |= {f"{name}_FILE" for name in re.findall(r"\bsecret\(\"([A-Z_]+)\"", code)}
    assert listed == read


@pytest.mark.process
def test_production_defaults_are_secure(tmp_path):
    program = (
        "import backend.settings as s; print(s.SECURE_SSL_REDIRECT, s.SESSION_COOKIE_SECURE, s.SECURE_HSTS_SECONDS)"
    )
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=BASE,
        env={**keep, **PRODUCTION, "ENV_FILE": os.devnull, "DEBUG": "0", "DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout.split() == ["True", "True", "31536000"]


@pytest.mark.database
@pytest.mark.django_db
def test_sqlite_keeps_what_it_acknowledged_and_blanks_what_it_deletes():
    from django.db import connection

    if connection.vendor != "sqlite":
        pytest.skip("this run uses PostgreSQL")
    with connection.cursor() as cursor:
        values = [
            cursor.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
        ]
    assert values == ["wal", 2, 1, 1]


@pytest.mark.process
@pytest.mark.parametrize("change", [{"DEBUG": "maybe"}, {"SECRET_KEY": ""}])
def test_a_command_prints_one_line_for_a_wrong_setting(tmp_path, change):
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "VIRTUAL_ENV") if name in os.environ}
    result = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=BASE,
        env={**keep, **PRODUCTION, "ENV_FILE": os.devnull, "DATA_DIR": str(tmp_path), **change},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 2
    assert result.stderr.startswith("wrong setting: ")
    assert result.stderr.count("\n") == 1
