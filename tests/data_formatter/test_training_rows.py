from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rl.base.errors import BadFile, UsageError
from rl.data_formatter import DPOPair, read_training_rows, training_row

PROMPT = [{"role": "user", "content": "Where?"}]
ANSWER = [{"role": "assistant", "content": "Here."}]
ROWS: dict[str, dict[str, Any]] = {
    "dpo": {"prompt": PROMPT, "chosen": ANSWER, "rejected": ANSWER},
    "kto": {"prompt": PROMPT, "completion": ANSWER, "label": False},
    "grpo": {"prompt": PROMPT, "completions": [ANSWER, ANSWER], "rewards": [0, 0.5]},
    "reward": {"prompt": PROMPT, "completion": ANSWER, "reward": 0.5},
    "reward_model": {"prompt": PROMPT, "completion": ANSWER, "score": 1},
    "prompts": {"prompt": PROMPT, "details": {"tests": []}},
}


def written(folder: Path, *rows: object) -> Path:
    path = folder / "train.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_rows_are_read_in_order(tmp_path: Path):
    rows = [training_row(DPOPair(f"Question {number}?", "ä\n", "", "q")) for number in range(3)]
    assert list(read_training_rows(written(tmp_path, *rows))) == rows


@pytest.mark.parametrize("method", ROWS)
def test_every_method_reads_its_rows(tmp_path: Path, method: str):
    row = ROWS[method] | {"prompt_key": "q"}
    assert list(read_training_rows(written(tmp_path, row, row), method)) == [row, row]


@pytest.mark.parametrize(
    ("method", "wrong", "told"),
    [
        ("dpo", {"prompt": "text"}, "prompt must be a list of messages"),
        ("dpo", {"rejected": []}, "rejected must be a list of messages"),
        ("kto", {"completion": [{"role": "assistant"}]}, "completion must be a list of messages"),
        ("kto", {"label": 1}, "label must be true or false"),
        ("grpo", {"completions": ANSWER}, "completions must be a list of lists of messages"),
        ("grpo", {"rewards": [True]}, "rewards must be a list of numbers"),
        ("reward", {"reward": None}, "reward must be a number"),
        ("reward_model", {"score": 1.5}, "score must be a number from 0 to 1"),
        ("reward_model", {"score": True}, "score must be a number from 0 to 1"),
        ("reward_model", {"chosen": ANSWER}, "rejected must be a list of messages"),
        ("prompts", {"details": []}, "details must be an object"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(tmp_path: Path, method: str, wrong: dict[str, Any], told: str):
    path = written(tmp_path, ROWS[method], {**ROWS[method], **wrong})
    with pytest.raises(BadFile, match=rf"train\.jsonl \(line 2\): {told}"):
        list(read_training_rows(path, method))


@pytest.mark.parametrize("line", ["[]", "null", '{"prompt": ['])
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: str):
    path = written(tmp_path, ROWS["dpo"], ROWS["dpo"], line)
    with pytest.raises(BadFile, match=r"train\.jsonl \(line 3.*\): (not valid JSON|prompt must be)"):
        list(read_training_rows(path))


def test_an_unknown_method_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="unknown kind of rows 'ppo'.*; known: mpo, sft, dpo, "):
        list(read_training_rows(written(tmp_path), "ppo"))


def test_rows_of_a_reward_model_are_pairs_or_scored_answers(tmp_path: Path):
    rows = [ROWS["dpo"], ROWS["reward_model"]]
    assert list(read_training_rows(written(tmp_path, *rows), "reward_model")) == rows
    with pytest.raises(BadFile, match=r"\(line 1\): chosen must be a list of messages"):
        list(read_training_rows(written(tmp_path, {"prompt": PROMPT}), "reward_model"))
