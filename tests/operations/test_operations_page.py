"""Every command of docs/operations.md is run, in the order of the page, on an installation with data in it."""

import json
import re
import shlex
from pathlib import Path

import pytest
from django.conf import settings

from tests.operations.installations import FILLED, Plain, empty

ROOT = Path(settings.BASE_DIR)
PAGE = (ROOT / "docs/operations.md").read_text()
OTHERS = {
    "git pull",
    "du --human-readable --max-depth=2 /var/lib/ratchet",
    ".venv/bin/pip install --require-hashes -r requirements.lock",
    ".venv/bin/pip install --require-hashes -r requirements-rl.lock",
    "deploy/lock",
    "deploy/sbom requirements-rl.lock > sbom.json",
}
"""Of git, coreutils and pip. tests/test_locks.py looks at the locks, and runs deploy/sbom."""
PROGRAM = """
import json, os, sys, traceback
from pathlib import Path
from django.conf import settings
from django.core.management import execute_from_command_line
from rl.models import Agent, Deployment, ModelVersion
agent = Agent.objects.get()
second = ModelVersion.objects.create(agent=agent, name="v2", base_model="tiny", feedback_count=2)
for version in (*agent.versions.exclude(pk=second.pk), second):
    Deployment.promote(version)
codes = []
for line in json.loads(sys.stdin.read()):
    if "restore" in line:
        newest = str(max(settings.BACKUP_DIR.glob("ratchet-*.tar")))
        line = [newest if word.endswith(".tar") else word for word in line] + ["--replace"]
    try:
        execute_from_command_line(["manage.py", *line])
        codes.append(0)
    except SystemExit as end:
        codes.append(end.code)
    except BaseException:
        traceback.print_exc()
        codes.append("broken")
Path(os.environ["CODES"]).write_text(json.dumps(codes))
"""


def lines() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def managed() -> list[str]:
    """Commands of manage.py; collectstatic belongs to root."""
    return [line.partition("manage.py ")[2] for line in lines() if "manage.py " in line]


def test_every_line_is_a_command_that_is_tried():
    others = [line for line in lines() if "manage.py " not in line and not line.startswith("systemctl ")]
    assert sorted(set(others) - OTHERS) == []
    assert len(managed()) >= 15
    assert {line.split()[0] for line in managed()} >= {"backup", "restore", "doctor", "retention", "migrate"}


def test_every_service_that_is_named_has_a_unit():
    named = {word for line in lines() if line.startswith("systemctl ") for word in line.split()[2:]}
    units = {path.stem for path in (ROOT / "deploy/systemd").glob("*.service")}
    assert named - units == set()
    assert set(re.findall(r"journalctl((?: -u [\w-]+)+)", PAGE)) == {" -u ratchet-web -u ratchet-queue"}


@pytest.mark.process
@pytest.mark.slow
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path):
    told = [line.replace("/mnt/elsewhere", str(tmp_path / "elsewhere")) for line in managed()]
    told = [line for line in told if not line.startswith("collectstatic")]  # tests/deploy runs it
    with empty("sqlite", tmp_path / "data") as site:
        codes = run(site, [shlex.split(line) for line in told], tmp_path)
    expected = dict.fromkeys(told, 0) | {"doctor": 1}  # no queue is at work here
    assert list(zip(told, codes, strict=True)) == [(line, expected[line]) for line in told]


def run(site: Plain, commands: list[list[str]], folder: Path) -> list[int]:
    """In one process: a start takes longer than most of them."""
    (folder / "commands.json").write_text(json.dumps(commands))
    program = FILLED + PROGRAM.replace("sys.stdin.read()", f"Path({str(folder / 'commands.json')!r}).read_text()")
    site.run("shell", "--no-imports", "-c", program, CODES=str(folder / "codes.json"))
    return json.loads((folder / "codes.json").read_text())
