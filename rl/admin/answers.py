"""What the models answered to the prompts of an evaluation, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from rl.admin.markup import NOTHING, badge

HEADINGS = {"base": "base model", "current": "version in use", "new": "new version"}
"""In the order of their columns."""


def answer_table(samples: Sequence[Mapping[str, Any]]) -> SafeString | str:
    """``samples``: of the guard rails of a report; errors stand above their answer."""
    names = [name for name in HEADINGS if any(name in sample for sample in samples)]
    if not names:
        return NOTHING
    heads = format_html_join("", '<th scope="col">{}</th>', [("prompt",), *((HEADINGS[name],) for name in names)])
    rows = format_html_join("", "<tr>{}</tr>", ((_cells(sample, names),) for sample in samples))
    return format_html('<table class="answers"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>', heads, rows)


def _cells(sample: Mapping[str, Any], names: Sequence[str]) -> SafeString:
    cells = [(sample["prompt"],), *((_answer(sample[name]) if name in sample else NOTHING,) for name in names)]
    return format_html_join("", "<td>{}</td>", cells)


def _answer(answered: Mapping[str, Any]) -> SafeString:
    errors = ((badge("reject", kind.replace("_", " ")),) for kind in answered["errors"])
    return format_html("{}{}", format_html_join("", "{} ", errors), answered["answer"])
