"""Every command and line of docs/coming-from/command-center.md."""

import json
import re
import shlex
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client

from backend.environment import origins
from rl.models import Agent, Feedback, Trace, WaitingRating
from tests.collect.make_command_center import write_files

PAGE = (Path(settings.BASE_DIR) / "docs/coming-from/command-center.md").read_text()
CALLS = [
    " ".join(call.split())
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for call in re.findall(r"^\$ (.*?)(?=^\$ |^\{|\Z)", block.replace("\\\n", " "), re.DOTALL | re.MULTILINE)
]
MANAGE = [call.removeprefix("python3 manage.py ") for call in CALLS if call.startswith("python3 manage.py ")]
CURLS = [call for call in CALLS if call.startswith("curl ")]
VARIABLES = dict(line.split("=", 1) for line in re.findall(r"```sh\n([A-Z_]+=.*?)\n```", PAGE, re.DOTALL))
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
LINES = re.findall(r"^(\{.*\})$", "\n".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)), re.MULTILINE)

pytestmark = [pytest.mark.learn, pytest.mark.django_db]


@pytest.fixture
def folder(tmp_path: Path, data_dir: Path, tiny_base: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the owner of a Command Center stands."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, questions=12, seed=5)
    star = {"id": "w1", "scenario": "kpi", "variant": "live", "rating": 5, "tags": [], "notes": "", "timestamp": 1}
    (tmp_path / "widget-feedback.json").write_text(json.dumps({"widgets": [star]}))
    return tmp_path


def manage(command: str, *more: str) -> dict[str, Any]:
    name, *options = shlex.split(command)
    output = StringIO()
    call_command(name, *options, *more, "--json", stdout=output)
    document: dict[str, Any] = json.loads(output.getvalue())
    return document


def curl(command: str) -> HttpResponse:
    _, _, address, *rest = shlex.split(command)
    options = list(zip(rest[::2], rest[1::2], strict=True))
    headers = dict(value.split(": ") for flag, value in options if flag == "-H")
    body = next((value for flag, value in options if flag == "-d"), None)
    client, path = Client(), "/" + address.split("/", 3)[3]
    if body is None:
        return client.get(path, headers=headers)
    return client.post(path, body, content_type=headers.pop("Content-Type"), headers=headers)


def test_nothing_on_the_page_is_left_out_here():
    assert (len(MANAGE), len(CURLS), len(LINES), list(VARIABLES)) == (7, 6, 1, ["COMMAND_CENTER_ORIGINS"])
    assert len(CALLS) == len(MANAGE) + len(CURLS)
    assert len(PYTHON) == 3
    assert len(PAGE.splitlines()) < 200


def test_the_files_are_imported_and_the_pages_calls_are_answered(folder: Path, settings, monkeypatch):
    entries, gallery = (manage(command) for command in MANAGE[:2])
    assert entries["feedback"]["imported"] > 100
    assert gallery["feedback"]["imported"] == 1
    monkeypatch.setenv("COMMAND_CENTER_ORIGINS", VARIABLES["COMMAND_CENTER_ORIGINS"])
    settings.COMMAND_CENTER_ORIGINS = origins("COMMAND_CENTER_ORIGINS")
    one, bulk, listing, production, status, history = map(curl, CURLS)
    assert set(status.json()) <= set(re.findall(r"`(\w+)`", PAGE))
    assert history.json() == {"history": [], "total": 0}
    assert (one.status_code, one.json()["rating"]) == (201, "up")
    named = re.search(r"its row \((.*?)\)", " ".join(PAGE.split()))
    assert named
    assert set(re.findall(r"`(\w+)`", named.group(1))) == set(one.json())
    assert json.dumps(bulk.json()) in PAGE
    rows = listing.json()
    assert {("e00001", "tablet"), ("e00002", "tablet")} <= {(row["entry_id"], row["device_id"]) for row in rows}
    assert production.content.decode() == LINES[0]
    assert Feedback.objects.filter(metric="interaction:expand").exists()
    assert not WaitingRating.objects.exists()


def test_what_the_page_says_of_errors_and_of_waiting_holds(folder: Path, settings):
    settings.COMMAND_CENTER_ORIGINS = {"http://localhost:3100": ""}
    assert curl(CURLS[0]).status_code == 201
    assert WaitingRating.objects.get().entry_id == "e00001"
    missing = curl(CURLS[3])
    assert (missing.status_code, json.dumps(missing.json()) in PAGE) == (404, True)
    settings.COMMAND_CENTER_ORIGINS = {}
    assert curl(CURLS[2]).status_code == 401
    manage(MANAGE[0])
    assert Feedback.objects.filter(rater="device:tablet", trace__external_id="e00001").exists()


def test_the_lines_of_python_run_in_their_order(folder: Path, capsys):
    manage(MANAGE[0])
    capsys.readouterr()
    for lines in PYTHON:
        exec(compile(lines, "page", "exec"), {})
    train, validation, buffer = map(int, capsys.readouterr().out.split())
    assert train >= 50 - validation
    assert buffer >= 1
    assert (folder / "pairs.jsonl").read_text().count("\n") == 1


def test_a_template_is_taken_as_the_page_says(folder: Path):
    manage(MANAGE[0])
    agent = Agent.objects.get()
    simulated = Trace.objects.filter(agent=agent).first()
    assert simulated
    asked = [{"role": "user", "content": f"Choose widgets. Query: {simulated.prompt[-1]['content']}"}]
    Trace.objects.create(agent=agent, source="gateway", prompt=asked, prompt_key="g", response="{}")
    (command,) = re.findall(r"^python3 manage.py (prompt_template .*)$", PAGE, re.MULTILINE)
    assert manage(command)["blanks"] == ["question"]
    agent.refresh_from_db()
    assert agent.prompt_template == "production"


@pytest.mark.slow
def test_the_agent_is_planned_trained_measured_exported_and_listed(folder: Path):
    manage(MANAGE[0])
    Agent.objects.update(response_length=16, guard_limits={"degenerate_rate": None})  # the toy rambles
    plan, _, _, _, _ = MANAGE[2:]
    assert manage(plan)["data"]["train_rows"] >= 50
    assert Trace.objects.filter(agent__name="widget-selector").exists()
    trained = manage(MANAGE[3], "--max-steps", "2")
    assert trained["version"].startswith("v")
    assert manage(MANAGE[4])
    exported = manage(MANAGE[5])
    assert Path(exported["path"]).is_file()
    assert exported["path"] in [file["path"] for file in manage(MANAGE[6])["gguf"]]
    assert Agent.objects.get().pair_type == "both"
