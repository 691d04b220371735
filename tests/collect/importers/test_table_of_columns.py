"""What docs/datasets.md says of each format's columns is what the importers read."""

import re

import pytest
from django.conf import settings

from rl.collect.importers import IMPORTERS, columns, reader, rivals
from rl.collect.importers.report import Ledger
from tests.collect.importers.reading import lines
from tests.collect.importers.test_any_record import SEEDS

_PAGE = (settings.BASE_DIR / "docs" / "datasets.md").read_text(encoding="utf-8")
_SECTION = _PAGE.partition("## What is learned from what\n")[2].partition("\n## ")[0]
_TABLE, _, _OF_DUELS = _SECTION.partition("### Several answers in one row\n")
ROWS = {
    name: line
    for line in _TABLE.splitlines()
    if line.startswith("| `")
    for name in re.findall(r"`(\w+)`", line.split("|")[1])
}


def named(row: str) -> set[str]:
    """Columns in the table's row, in small letters; of ``input.messages`` the first."""
    cells = row.split("|")[2:]
    return {name.partition(".")[0].lower() for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}


def test_every_format_has_a_row_and_every_row_a_format():
    assert set(ROWS) == set(IMPORTERS)


@pytest.mark.parametrize("name", ["trl", "openai_chat", "openai_preference", "sharegpt", "open_assistant"])
def test_every_column_that_is_read_stands_in_the_row_of_its_format(tmp_path, name: str):
    account = Ledger()
    for number, row in enumerate(SEEDS[name]):
        for record in reader(name).read(lines(tmp_path, row, name=f"{number}.jsonl")):
            account.add(record)
    read = {
        column.lower()
        for column, fates in account.columns.items()
        if any(fate.startswith("read as") and not re.search("the id|people picked", fate) for fate in fates)
    }
    assert read - named(ROWS[name]) - (named(_OF_DUELS) if name == "trl" else set()) == set()


@pytest.mark.parametrize("name", IMPORTERS)
def test_every_column_of_a_row_is_one_that_somebody_reads(name: str):
    folders = ("rl/collect", "rl/from_systems")
    sources = [file.read_text() for folder in folders for file in (settings.BASE_DIR / folder).rglob("*.py")]
    assert [column for column in named(ROWS[name]) if not any(column in text.lower() for text in sources)] == []


def test_the_row_of_trl_names_all_that_columns_may_be_called_and_nothing_else():
    groups = (
        *(columns.ANSWER, columns.CHOSEN, columns.REJECTED),
        *(columns._QUESTION, columns._BESIDE_IT, columns._SYSTEM, columns._LABEL, columns._HISTORY, columns._RATER),
        *(rivals.RANKED, rivals._SCORES, ("rank",)),
        ("messages", "completions", "rewards", "labels", "tools"),
    )
    assert named(ROWS["trl"]) == {name for group in groups for name in group}


def test_the_table_of_two_answers_has_every_verdict():
    said = set()
    for line in _OF_DUELS.splitlines():
        if line.startswith("| `"):
            first, second, verdict = (re.findall(r"`(\w+)`", cell.lower()) for cell in line.split("|")[1:4])
            said |= {(*pair, verdict[0]) for pair in zip(first, second, strict=True)}
    assert said == {(duel.first, duel.second, duel.verdict) for duel in rivals.DUELS}
