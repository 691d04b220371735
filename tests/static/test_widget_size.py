"""The widget is one file that other people's pages load: small, free of dependencies, at home under a strict policy."""

import gzip
import re
from pathlib import Path

import pytest
from django.conf import settings

WIDGET = Path(settings.BASE_DIR) / "static" / "rl" / "ratchet-feedback.js"
MORE = WIDGET.with_name("ratchet-feedback-more.js")
LIMIT, LIMIT_OF_MORE = 9_000, 3_100
"""Bytes, compressed: of what every page loads, and of what pairs, corrections and choices load besides."""


def test_the_widget_is_at_most_9_kilobytes_compressed() -> None:
    assert len(gzip.compress(WIDGET.read_bytes(), compresslevel=9)) <= LIMIT
    assert len(gzip.compress(MORE.read_bytes(), compresslevel=9)) <= LIMIT_OF_MORE


def test_the_widget_loads_one_other_file_when_it_is_needed() -> None:
    source = WIDGET.read_text(encoding="utf-8")
    assert re.findall(r"\bimport\b(?!\.meta\.url)[^)]*.", source) == ['import("./ratchet-feedback-more.js")']
    assert "import" not in MORE.read_text(encoding="utf-8")
    assert "customElements.define" in source


@pytest.mark.parametrize(
    "sink", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
)
def test_the_widget_turns_no_text_into_markup_or_code(sink: str) -> None:
    assert sink not in WIDGET.read_text(encoding="utf-8") + MORE.read_text(encoding="utf-8")


@pytest.mark.parametrize("script", [WIDGET, MORE])
def test_all_languages_have_the_same_texts(script: Path) -> None:
    blocks = re.findall(r"(?ms)^  (?:en|de|es): \{(.*?)^  \},", script.read_text(encoding="utf-8"))
    names = [re.findall(r'(\w+): "', block) for block in blocks]
    assert len(names) == 3
    assert names[0] == names[1] == names[2]
