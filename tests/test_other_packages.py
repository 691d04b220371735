"""The package of docs/examples/other_package, installed: what its metadata names is there, and a name is taken once."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from django.conf import settings

pytestmark = pytest.mark.process
EXAMPLE = Path(settings.BASE_DIR) / "docs/examples/other_package"


def install(folder: Path, groups: dict[str, dict[str, str]]) -> Path:
    """As pip does it: the module, and its metadata beside it."""
    metadata = folder / "ratchet_example-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ratchet-example\nVersion: 1.0\n")
    lines = [line for group, points in groups.items() for line in (f"[{group}]", *map(" = ".join, points.items()))]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (folder / "ratchet_example.py").write_bytes((EXAMPLE / "ratchet_example.py").read_bytes())
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    folder = install(tmp_path_factory.mktemp("installed"), project["entry-points"])
    for command in (("migrate", "--verbosity", "0"), ("agent", "create", "guide")):
        done = manage(folder, *command)
        assert done.returncode == 0, done.stderr
    return folder


def manage(folder: Path, *arguments: str, read: str = "") -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": str(folder), "DATA_DIR": str(folder / "data"), "DATABASE_URL": "", "ENV_FILE": os.devnull}
    own |= {"SECRET_KEY": "only-for-this-test-" + "x" * 50, "DEBUG": "1"}
    command = [sys.executable, str(Path(settings.BASE_DIR) / "manage.py"), *arguments]
    return subprocess.run(
        command, env={**os.environ, **own}, input=read, capture_output=True, text=True, check=False, timeout=600
    )


def test_its_importer_reads_files_and_its_form_exports_rows(site: Path) -> None:
    notes, rows = site / "notes.jsonl", site / "rows.jsonl"
    notes.write_text('{"question": "How far?", "answer": "Two miles."}\n{"question": "How long?"}\n')
    done = manage(site, "import_traces", "--format", "notes", "--agent", "guide", str(notes))
    assert "line 2" in done.stdout + done.stderr
    which = ("--agent", "guide", "--format", "questions", "--split", "all")
    done = manage(site, "export_training_data", *which, "--output", str(rows))
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["question"] for line in rows.read_text().splitlines()] == ["How far?"]


def test_its_reward_method_and_rail_are_among_the_others(site: Path) -> None:
    code = """
from rl.config import preset
from rl.config.guard_limits import CAPTIONS, check_guard_limits, guard_limits
from rl.evaluation.guards.rails import EXAMINERS
from rl.rewards import default_weights
check_guard_limits({"asking_back": 0.2})
print(default_weights()["short_answer"], preset("auto", "one_pass").epochs, guard_limits({})["asking_back"])
print(CAPTIONS["asking_back"], EXAMINERS["asking_back"].__module__)
"""
    done = manage(site, "shell", "--no-imports", "-c", code)
    assert done.stdout.splitlines() == [
        "0.0 1.0 0.5",
        "It answers, where it could ask back ratchet_example",
    ], done.stderr
    assert "one_pass" in manage(site, "train", "--help").stdout


def test_a_name_that_is_there_already_is_refused_in_a_sentence(tmp_path: Path) -> None:
    folder = install(tmp_path / "installed", {"ratchet.importers": {"trl": "ratchet_example"}})
    done = manage(folder, "check")
    assert done.returncode
    assert "ratchet_example: ratchet.importers has a 'trl' already; uninstall the package" in done.stderr
