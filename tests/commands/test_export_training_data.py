import json
from functools import partial

import pyarrow.parquet
import pytest

from tests.commands.printing import printed, refused
from tests.conftest import make_trace
from tests.dataset_builder.ratings import rate_prompts, rated, read_jsonl

told = partial(printed, "export_training_data", "--agent-type", "Support-Chat")


def test_it_writes_rows_and_says_how_many(agent, tmp_path):
    rate_prompts(agent, 10)
    make_trace(agent)
    path = tmp_path / "kto.jsonl"
    text = told("--format", "kto", "--output", str(path))
    rows = read_jsonl(path)
    assert f"{len(rows)} rows of format kto in {path}; {20 - len(rows)} more held out for testing" in text
    assert 0 < len(rows) < 20


def test_a_limit_says_nothing_of_the_rows_that_were_not_looked_at(agent, tmp_path):
    rate_prompts(agent, 20)
    text = told("--format", "kto", "--output", str(tmp_path / "kto.jsonl"), "--limit", "30")
    assert text.splitlines()[-1].endswith("kto.jsonl")


def test_it_writes_parquet_by_the_suffix_or_when_told(agent, tmp_path):
    rate_prompts(agent, 2)
    for name, more in (("a.parquet", ()), ("b.rows", ("--file-format", "parquet"))):
        told("--format", "dpo", "--output", str(tmp_path / name), "--split", "all", *more)
        assert pyarrow.parquet.read_table(tmp_path / name).num_rows == 2


def test_a_dry_run_counts_and_writes_nothing(agent, tmp_path):
    rate_prompts(agent, 3)
    rated(agent, "Lonely?", "Yes.", 1)
    path = tmp_path / "dpo.jsonl"
    document = json.loads(told("--format", "dpo", "--output", str(path), "--split", "all", "--dry-run", "--json"))
    assert document == {
        "agent": "support-chat",
        "format": "dpo",
        "path": str(path),
        "file_format": "jsonl",
        "dry_run": True,
        "rows": 3,
        "split": "all",
        "other_side": 0,
        "limited": False,
        "skipped": {"only liked answers": 1},
    }
    assert not path.exists()
    assert "3 rows of format dpo would be written" in told("--format", "dpo", "--split", "all", "--dry-run")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--format", "kto"), 2, "--output is missing"),
        (("--format", "kto", "--output", "rows.csv"), 2, "name the file .jsonl or .parquet"),
        (("--format", "kto", "--output", "x.jsonl", "--val-split", "2"), 2, "val_split must be"),
        (("--format", "kto", "--output", "x.jsonl", "--limit", "0"), 2, "limit must be 1 or more"),
        (("--format", "kto", "--dry-run"), 3, "a row of format kto; 'training_plan --agent support-chat' says"),
        (("--format", "decision", "--dry-run"), 3, "it is made of decisions"),
    ],
)
def test_wrong_arguments_and_nothing_to_write_are_one_line(agent, arguments, code, message):
    refused(told, message, *arguments, code=code)
