"""What CI runs is there: a renamed test must not drop out of the list for PostgreSQL, nor stop it. A forge runs it too."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

from backend.bootstrap import SUPPORTED

ROOT = Path(__file__).resolve().parents[1]


def test_every_test_that_ci_names_exists():
    words = re.findall(r"(?<![\w/])tests/\S+", (ROOT / ".ci/run").read_text())
    expanded = subprocess.run(
        ["bash", "-O", "failglob", "-c", f"printf '%s\\n' {' '.join(words)}"], cwd=ROOT, capture_output=True, text=True
    )
    assert expanded.returncode == 0, expanded.stderr
    assert [path for path in expanded.stdout.split() if not (ROOT / path).exists()] == []
    assert len(words) > 10


def test_a_forge_runs_all_of_it_on_the_oldest_and_the_newest_python_that_is_promised():
    (job,) = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"].values()
    promised = [".".join(map(str, version)) for version in SUPPORTED]
    assert job["strategy"]["matrix"] == {"python": promised}
    assert job["container"]["image"].startswith("python:${{ matrix.python }}-")
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
