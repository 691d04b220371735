from __future__ import annotations

import json
from typing import Any

import pytest

from rl.web import excerpt
from rl.web.excerpt import CHARACTERS, MOST_CHARACTERS, MOST_ITEMS, STEPS, Excerpt


def test_texts_lists_and_values_are_cut_and_it_says_so():
    page = Excerpt()
    assert page.text("a" * CHARACTERS) == "a" * CHARACTERS
    assert (page.first(range(STEPS)), page.cut) == ([*range(STEPS)], False)
    assert page.text("a" * (CHARACTERS + 5)).endswith("a… (5 more characters)")
    assert page.last(range(STEPS + 5)) == [*range(5, STEPS + 5)]
    assert page.cut


def test_all_texts_and_all_lists_of_a_page_together_are_bounded():
    page = Excerpt()
    texts = [page.text("a" * CHARACTERS) for _ in range(200)]
    assert [len(text.partition("…")[0]) for text in texts] == [CHARACTERS] * (MOST_CHARACTERS // CHARACTERS) + [0] * 150
    assert sum(len(page.first(range(STEPS))) for _ in range(200)) == MOST_ITEMS
    assert (page.last([1, 2]), page.cut) == ([], True)


@pytest.mark.parametrize("whole", [False, True])
def test_a_value_is_written_no_further_than_it_is_shown(whole: bool, monkeypatch):
    monkeypatch.setattr(excerpt, "JSON_PIECES", 1000)
    value: Any = json.loads("[" * 60 + "1," * 100_000 + "1" + "]" * 60)
    page = Excerpt(whole)
    shown = page.value(value)
    assert shown.endswith("…")
    assert shown.startswith("[\n  [\n    [")
    assert len(shown) < 200_000
    assert page.cut


def test_values_are_json_and_texts_are_texts():
    page = Excerpt()
    assert [page.value(value) for value in (None, "", {}, "a", {"a": [1]})] == [
        *("", "", "", "a"),
        '{\n  "a": [\n    1\n  ]\n}',
    ]
    assert not page.cut
