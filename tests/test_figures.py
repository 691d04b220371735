"""Figures in the docs are those that benchmarks gave: docs/figures.json keeps them, and benchmarks/record.py writes it."""

import ast
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RECORDS = json.loads((DOCS / "figures.json").read_text(encoding="utf-8"))
OWED = {
    "follow_ups",
    "ratings",
}
"""Their figures were measured before records were kept. A name leaves this list when it is measured anew."""


def pages_of(name: str) -> list[Path]:
    return [page for page in sorted(DOCS.rglob("*.md")) if f"benchmarks/{name}.py" in page.read_text(encoding="utf-8")]


def plain(text: str) -> str:
    """Without white space and bold, which the pages set as they like."""
    return re.sub(r"[\s*]", "", text)


@pytest.mark.parametrize("name", RECORDS)
def test_the_pages_that_name_a_benchmark_have_its_figures(name: str):
    assert RECORDS[name].keys() == {"command", "date", "minutes", "figures"}
    texts = [plain(page.read_text(encoding="utf-8")) for page in pages_of(name)]
    assert texts, f"no page names benchmarks/{name}.py"
    missing = [figure for figure in RECORDS[name]["figures"] if not any(plain(figure) in text for text in texts)]
    assert missing == []


def test_every_benchmark_that_a_page_names_has_a_record_or_owes_one():
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    named = set(re.findall(r"benchmarks/(\w+)\.py", pages)) - {"record"}
    assert named == RECORDS.keys() | OWED
    assert not RECORDS.keys() & OWED


@pytest.mark.parametrize("name", sorted(RECORDS.keys() | OWED))
def test_a_benchmark_finds_the_project_without_a_variable_of_the_environment(name: str):
    file = ROOT / "benchmarks" / f"{name}.py"
    texts = {file: file.read_text(encoding="utf-8")}
    imports = {
        (node.module or "").split(".")[0] for node in ast.parse(texts[file]).body if isinstance(node, ast.ImportFrom)
    }
    beside = [other for module in imports if (other := file.with_name(f"{module}.py")).is_file()]
    texts |= {other: other.read_text(encoding="utf-8") for other in beside}
    assert "PYTHONPATH=" not in texts[file]
    assert not imports & {"rl", "backend"} or any("sys.path" in text for text in texts.values())


def test_no_record_has_a_path_of_the_machine_that_made_it():
    assert [name for name, record in RECORDS.items() if "/" in record["command"].replace("benchmarks/", "", 1)] == []


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import record

    return record


def test_the_rows_of_all_tables_are_kept_without_their_heads(record: ModuleType):
    printed = "Some words.\n\n| a | b |\n|---|:-:|\n| 1 | 2 % |\n\n| c | d |\n| --- | --- |\n| 3 | 4 |\n| 5 | |\n"
    assert record.read_figures("any", printed) == ["| 1 | 2 % |", "| 3 | 4 |", "| 5 | |"]


def test_a_benchmark_that_prints_no_figure_is_refused(record: ModuleType):
    with pytest.raises(ValueError, match="any has printed no table"):
        record.read_figures("any", "done\n")


def test_a_drill_with_a_cheat_that_passed_is_not_recorded_as_all_stopped(record: ModuleType):
    good = {"scripted": {"cheats": 23, "always_stopped": 23, "alarms": 0}}
    assert record.read_figures("drill", json.dumps(good)) == ["Tried with 23 ways to please without helping"]
    with pytest.raises(ValueError, match="22 of 23"):
        record.read_figures("drill", json.dumps({"scripted": {"cheats": 23, "always_stopped": 22, "alarms": 0}}))
