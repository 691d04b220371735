"""What CI runs is there: a renamed test must not drop out of the list for PostgreSQL, nor stop it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_every_test_that_ci_names_exists():
    words = re.findall(r"(?<![\w/])tests/\S+", (ROOT / ".ci/run").read_text())
    expanded = subprocess.run(
        ["bash", "-O", "failglob", "-c", f"printf '%s\\n' {' '.join(words)}"], cwd=ROOT, capture_output=True, text=True
    )
    assert expanded.returncode == 0, expanded.stderr
    assert [path for path in expanded.stdout.split() if not (ROOT / path).exists()] == []
    assert len(words) > 10
