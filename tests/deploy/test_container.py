"""The image and the containers: linted, and of the steps that docs/setup.md has."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.core.management import get_commands, load_command_class

ROOT = Path(settings.BASE_DIR)
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SETUP = (ROOT / "docs/setup.md").read_text()


def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def ours() -> dict[str, dict[str, Any]]:
    """The containers of the image that is built here."""
    return {name: service for name, service in compose()["services"].items() if "build" in service}


def instructions(word: str) -> list[str]:
    return re.findall(rf"^{word} (.*)$", re.sub(r"\\\n\s*", "", DOCKERFILE), re.MULTILINE)


def image_files() -> list[Path]:
    """What .dockerignore lets through: it leaves out everything, and lets names through after that."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    assert [line for line in lines[1:] if not re.fullmatch(r"!\w[\w.-]*|\*\*/[\w.*]+", line)] == []
    return [ROOT / line[1:] for line in lines if line.startswith("!")]


@pytest.mark.process
def test_the_dockerfile_has_nothing_to_complain_about():
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_compose_file_is_of_the_specification():
    """https://github.com/compose-spec/compose-spec/blob/main/schema/compose-spec.json, of November 2026."""
    schema = json.loads((ROOT / "tests/deploy/compose-spec.json").read_text())
    import jsonschema  # not at the top: that takes two seconds of each process that tests

    jsonschema.Draft7Validator(schema).validate(compose())


def test_the_site_the_queue_and_postgresql_run():
    assert set(compose()["services"]) == {"database", "migrate", "web", "queue"}
    assert {name: service["command"][0] for name, service in ours().items()} == {
        "migrate": "migrate",
        "web": "serve",
        "queue": "qcluster",
    }


@pytest.mark.parametrize("name", ["migrate", "web", "queue"])
def test_a_container_has_no_rights_and_a_root_that_it_cannot_write(name: str):
    service = ours()[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert "no-new-privileges:true" in service["security_opt"]
    assert not {"privileged", "network_mode", "pid", "user", "cap_add", "devices"} & set(service)
    assert int(instructions("USER")[-1].split(":")[0]) > 0


def test_only_this_machine_reaches_the_site_and_nobody_the_database():
    ports = {name: service.get("ports", []) for name, service in compose()["services"].items()}
    assert ports == {"database": [], "migrate": [], "web": ["127.0.0.1:8000:8000"], "queue": []}


def test_health_is_asked_where_there_is_an_answer():
    assert "/healthz" in instructions("HEALTHCHECK")[0]
    assert "pg_isready" in compose()["services"]["database"]["healthcheck"]["test"]
    assert "healthcheck" not in ours()["web"]  # the image's


@pytest.mark.parametrize("name", ["migrate", "web", "queue"])
def test_the_commands_of_the_containers_exist_with_their_options(name: str):
    command, *arguments = ours()[name]["command"]
    load_command_class(get_commands()[command], command).create_parser("manage.py", command).parse_args(arguments)


def test_the_image_does_what_the_setup_page_says():
    said = re.search(r"^apt install (.+)$", SETUP, re.MULTILINE)
    assert said is not None
    assert set(said[1].split()) <= set(shlex.split(" ".join(instructions("RUN"))))
    for step in ("python3 -m venv .venv", "manage.py collectstatic --noinput", "--require-hashes -r"):
        assert step in SETUP
        assert step in " ".join(instructions("RUN"))
    for name in ("web", "queue"):
        service = (ROOT / f"deploy/systemd/ratchet-{name}.service").read_text()
        for word in (each for each in ours()[name]["command"] if each not in ("--host", "0.0.0.0")):
            assert word in service


def test_postgresql_is_one_whose_backups_the_image_can_make():
    """Debian 12 has the client of version 15."""
    assert compose()["services"]["database"]["image"] == "postgres:15-bookworm"
    assert all(line.startswith("python:3.12-slim-bookworm") for line in instructions("FROM"))


def test_nothing_of_this_machine_goes_into_the_image():
    names = {path.name for path in image_files()}
    assert not names & {".env", ".git", ".venv", "data", "tests", ".ci", "compose.yaml"}
    assert [path for path in image_files() if not path.exists()] == []


@pytest.mark.process
def test_what_goes_into_the_image_is_enough(tmp_path: Path):
    """The step of the image that runs our own code, with the files that it has there."""
    for path in image_files():
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, tmp_path / path.name)
    (step,) = (line for line in instructions("RUN") if "collectstatic" in line)
    variables = dict(re.findall(r"([A-Z_]+)=(\S+)", step)) | {"DATA_DIR": str(tmp_path / "build")}
    done = subprocess.run(
        [sys.executable, "manage.py", "collectstatic", "--noinput"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "staticfiles/rl/ratchet-feedback.js").exists()
