"""The widget is one file that other people's pages load: small, free of dependencies, at home under a strict policy."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from django.conf import settings

WIDGET = Path(settings.BASE_DIR) / "static" / "rl" / "ratchet-feedback.js"
LIMIT = 6 * 1024


def test_the_widget_is_at_most_6_kilobytes_compressed() -> None:
    assert len(gzip.compress(WIDGET.read_bytes(), compresslevel=9)) <= LIMIT


def test_the_widget_loads_no_other_file() -> None:
    source = WIDGET.read_text(encoding="utf-8")
    assert re.findall(r"\bimport\b(?!\.meta\.url)", source) == []
    assert "customElements.define" in source


@pytest.mark.parametrize(
    "sink", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
)
def test_the_widget_turns_no_text_into_markup_or_code(sink: str) -> None:
    assert sink not in WIDGET.read_text(encoding="utf-8")


def test_both_languages_have_the_same_texts() -> None:
    blocks = re.findall(r"(?ms)^  (?:en|de): \{(.*?)^  \},", WIDGET.read_text(encoding="utf-8"))
    names = [re.findall(r'(\w+): "', block) for block in blocks]
    assert len(names) == 2
    assert names[0] == names[1]
