from __future__ import annotations

from typing import Any

import pytest

from rl.base.errors import BadFile
from rl.collect.importers import IMPORTERS, ledger, openai_chat, reader, trl
from rl.collect.importers.ledger import KEPT, NO_WORDS, OPINION, REPEATED, TEXT, Ledger
from rl.collect.traces.imported import Rejected
from tests.collect.importers.reading import lines, said, taken
from tests.collect.importers.test_any_record import SEEDS

QUESTION, ANSWER = said("user", "Name a river."), said("assistant", "The Elbe.")
PAIR = {"prompt": "Name a river.", "chosen": "The Elbe.", "rejected": "A hill."}
ROW = {"prompt": "Name a river.", "completion": "The Elbe."}


def noted(folder: Any, *rows: dict[str, Any], module: Any = trl) -> Ledger:
    account = Ledger()
    for record in module.read(lines(folder, *rows)):
        account.add(record)
    return account


def test_every_column_is_accounted_for_with_counts(tmp_path):
    rows = [{**ROW, "system": "Be brief.", "label": True, "difficulty": 3}, {**ROW, "label": 0, "note": None}]
    account = noted(tmp_path, *rows, {"prompt": "no answer"})
    assert account.records == 2
    assert {row["column"]: row["became"] for row in account.as_list()} == {
        "prompt": {"read as the question": 2},
        "completion": {"read as the answer": 2},
        "system": {"read as the system message": 1},
        "label": {"read as a thumb": 2},
        "difficulty": {KEPT: 1},
    }


def test_two_answers_of_one_row_count_once(tmp_path):
    assert noted(tmp_path, PAIR).columns["chosen"] == {"read as the better answer": 1}


@pytest.mark.parametrize(
    "more",
    [
        {"messages": [QUESTION, ANSWER]},
        {"response": " The  Elbe. "},
        {"question": "Name a river."},
        {"history": []},
    ],
)
def test_what_other_columns_say_too_is_not_missing(tmp_path, more):
    account = noted(tmp_path, {**PAIR, **more})
    account.refuse_unread(tmp_path)
    assert all(account.columns[name] == {REPEATED: 1} for name, value in more.items() if value)


@pytest.mark.parametrize(
    ("module", "row", "name", "fate"),
    [
        (trl, {**ROW, "rating": 4}, "rating", OPINION),
        (trl, {**ROW, "thumbs_up": True}, "thumbs_up", OPINION),
        (openai_chat, {"messages": [QUESTION, ANSWER], "feedback": "good"}, "feedback", OPINION),
        (trl, {**ROW, "question": "And which is longer?"}, "question", TEXT),
        (trl, {**PAIR, "messages": [QUESTION, said("assistant", "The Rhine.")]}, "messages", TEXT),
        (openai_chat, {"messages": [QUESTION, ANSWER], "prompt": "Another one."}, "prompt", TEXT),
        (
            openai_chat,
            {"messages": [said("user", [{"type": "image_url", "image_url": {"url": "x"}}]), ANSWER]},
            "messages",
            NO_WORDS,
        ),
    ],
)
def test_a_file_of_which_a_known_kind_of_column_is_not_read_is_refused(tmp_path, module, row, name, fate):
    account = noted(tmp_path, row, row, module=module)
    assert account.columns[name] == {fate: 2}
    with pytest.raises(BadFile, match=f"the column '{name}' {fate} in 2 of 2 records; .*--allow-unread"):
        account.refuse_unread(tmp_path)


def test_a_few_records_are_no_reason_to_refuse_a_file(tmp_path):
    account = noted(tmp_path, {**ROW, "rating": 4}, ROW)
    account.refuse_unread(tmp_path)
    assert sum(account.columns["rating"].values()) == 1


def test_an_opinion_beside_one_that_is_read_is_a_detail(tmp_path):
    assert noted(tmp_path, {**PAIR, "rating": [9, 3]}).columns["rating"] == {KEPT: 1}


def test_columns_without_end_are_counted_together(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "_MOST", 3)
    account = noted(tmp_path, {**ROW, **{f"c{number}": 1 for number in range(9)}})
    assert list(account.columns) == ["prompt", "completion", "c0", "other columns"]
    assert account.columns["other columns"] == {KEPT: 8}


def test_a_name_for_a_terminal_is_no_program_for_it(tmp_path):
    assert "\x1b" not in "".join(noted(tmp_path, {**ROW, "\x1b[2J": "x"}).columns)


@pytest.mark.parametrize("name", SEEDS)
def test_every_format_says_what_it_reads(tmp_path, name):
    for number, row in enumerate(SEEDS[name]):
        folder = tmp_path / str(number)
        folder.mkdir()
        *_, last = taken(reader(name), lines(folder, row))
        assert not isinstance(last, Rejected)
        assert any(fate.startswith("read as") for fate in last.columns.values())
    assert name in IMPORTERS
