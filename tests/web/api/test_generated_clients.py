"""Clients that other people's tools make from the description of the API, in Python and TypeScript, ask the real site."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl.models import Agent, ApiKey, Feedback, TrainingRun
from tests.commands.environments import environment_of
from tests.missing import missing
from tests.once import made_once
from tests.web.front.in_thread import front_in_thread

pytestmark = [pytest.mark.process, pytest.mark.slow]  # the tools are installed first
HERE = Path(__file__).parent / "generated"
UNREADABLE = "application/x-ndjson"
"""What the tool for Python has no type for: those calls have another form too, or are for other systems."""


@pytest.fixture
def arguments(transactional_db: None, data_dir: Path, settings, agent: Agent) -> Iterator[tuple[str, str, str]]:
    """Address, key, and the number of a run."""
    run = TrainingRun.objects.create(agent=agent, method="dpo", state="failed")
    key = ApiKey.create(name="shop", kind=ApiKey.Kind.SECRET)[1]
    with front_in_thread(settings) as url:
        yield url, key, str(run.pk)


@pytest.fixture
def description(tmp_path: Path) -> Path:
    from django.core.management import call_command

    call_command("spectacular", file=str(tmp_path / "schema.yaml"), validate=True, fail_on_warn=True)
    return tmp_path / "schema.yaml"


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    variables = {**os.environ, **environment}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(folder: Path) -> None:
    shutil.copytree(HERE, folder)
    run("npm", "ci", "--ignore-scripts", "--prefer-offline", cwd=folder)


def require_use(printed: str) -> None:
    assert json.loads(printed.splitlines()[-1]) == {"responses": ["Hello."], "values": [1], "rated": 1, "run": "failed"}
    assert Feedback.objects.get().rater == "customer-1"


def test_a_client_in_python_has_every_call(arguments: tuple[str, ...], description: Path, tmp_path: Path):
    python = environment_of("openapi")
    generate = ("generate", "--path", description, "--output-path", tmp_path / "ratchet", "--meta", "none")
    told = run(python, "-m", "openapi_python_client", *generate, cwd=tmp_path)
    warnings = [part for part in told.split("WARNING")[1:] if UNREADABLE not in part]
    assert warnings == []
    assert "Unable to process schema" not in told
    require_use(run(python, HERE / "use_client.py", *arguments, cwd=tmp_path, PYTHONPATH=str(tmp_path)))


def test_a_client_in_typescript_is_checked_by_its_types(arguments: tuple[str, ...], description: Path, tmp_path: Path):
    if shutil.which("npm") is None:
        missing("npm", "nodejs npm")
    (tmp_path / "node_modules").symlink_to(made_once("generated-clients", install) / "node_modules")
    for name in ("use_client.ts", "package.json"):
        shutil.copy(HERE / name, tmp_path)
    run("npx", "openapi-typescript", description, "-o", "schema.d.ts", cwd=tmp_path)
    strict = ("--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck")
    run("npx", "tsc", *strict, "use_client.ts", cwd=tmp_path)
    require_use(run("node", "use_client.js", *arguments, cwd=tmp_path))
