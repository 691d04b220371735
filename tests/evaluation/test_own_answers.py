from __future__ import annotations

import json

import pytest

from rl.base.errors import BadFile
from rl.evaluation.own_answers import has_answers, read_answers

ROW = {"prompt": "Item: tax", "completion": '{"swimlane": "HOME"}', "reward": -3.5, "metadata": {"decisionId": "d1"}}


def write(path, *rows: object):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_a_completion_is_an_object_or_its_text(tmp_path):
    file = write(tmp_path / "own.jsonl", ROW, {"prompt": "<|system|>\nBe.\n<|user|>\nFile it.", "completion": {"a": 1}})
    first, second = read_answers(file).rows
    assert (first["details"], first["reward"]) == ({"expected": {"swimlane": "HOME"}}, -3.5)
    assert first["prompt"] == [{"role": "user", "content": "Item: tax"}]
    assert [message["role"] for message in second["prompt"]] == ["system", "user"]
    assert (second["details"], second["reward"]) == ({"expected": {"a": 1}}, None)


def test_the_first_line_says_what_a_file_has(tmp_path):
    assert has_answers(write(tmp_path / "own.jsonl", ROW))
    assert not has_answers(write(tmp_path / "pairs.jsonl", {"prompt": "a", "chosen": "b", "rejected": "c"}))
    assert not has_answers(write(tmp_path / "empty.jsonl"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (7, "a line must be one JSON object"),
        ({**ROW, "prompt": ""}, "prompt must be a text or a list of messages"),
        ({**ROW, "completion": "Home"}, "completion must be a JSON object, or its text"),
        ({**ROW, "completion": {}}, "completion must be a JSON object"),
        ({**ROW, "reward": "much"}, "reward must be a number"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path, row, message):
    with pytest.raises(BadFile, match=message) as error:
        read_answers(write(tmp_path / "own.jsonl", ROW, row))
    assert "line 2" in str(error.value)
