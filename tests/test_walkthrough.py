"""docs/walkthrough.md runs from top to bottom, and prints what it shows."""

import contextlib
import io
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

PAGE = Path(settings.BASE_DIR) / "docs" / "walkthrough.md"
STEP = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
MAY_DIFFER = {r"≈[\d.]*\d": r"[\d.]*\d", "…": ".*"}
"""What the page shows where machines differ, and what is printed there."""


@pytest.fixture
def steps() -> list[tuple[str, str]]:
    """Code, and what it prints."""
    return STEP.findall(PAGE.read_text(encoding="utf-8"))


def printed_by(code: str, names: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, PAGE.name, "exec"), names)
    return out.getvalue()


def pattern(shown: str) -> str:
    parts = re.split("(" + "|".join(MAY_DIFFER) + ")", shown)
    loose = {part: there for part in parts for mark, there in MAY_DIFFER.items() if re.fullmatch(mark, part)}
    return "".join(loose.get(part) or re.escape(part) for part in parts)


@pytest.mark.learn
@pytest.mark.slow
@pytest.mark.django_db
def test_every_step_prints_what_the_page_shows(steps, data_dir: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names: dict[str, Any] = {}
    for code, shown in steps:
        printed = printed_by(code, names)
        assert re.fullmatch(pattern(shown), printed), printed


def test_every_block_of_code_is_a_step(steps):
    assert len(steps) == PAGE.read_text(encoding="utf-8").count("```python")
