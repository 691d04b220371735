import json

import pytest

from rl.base.errors import BadFile
from rl.evaluation.own_rows import has_answers, read_answers, read_pairs
from rl.models import ModelVersion, TrainingRun, TrainingSet, prompt_key

USER = [{"role": "user", "content": "Where is it?"}]


def write(path, *rows: object):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_texts_and_messages_are_pairs_and_other_fields_are_ignored(tmp_path):
    file = write(
        tmp_path / "own.jsonl",
        {"prompt": "Where is it?", "chosen": "Here.", "rejected": "", "note": 3},
        {"prompt": [*USER], "chosen": [{"role": "assistant", "content": "There.", "name": "x"}], "rejected": "No."},
    )
    pairs = read_pairs(file)
    assert [row["prompt"] for row in pairs.rows] == [USER, USER]
    assert pairs.rows[1]["chosen"] == [{"role": "assistant", "content": "There."}]
    assert {row["prompt_key"] for row in pairs.rows} == {prompt_key(USER)}
    assert (pairs.share, pairs.learned) == (1.0, 0)


GOOD = {"prompt": "a", "chosen": "b", "rejected": "c"}
ROW = {"prompt": "Item: tax", "completion": '{"swimlane": "HOME"}', "reward": -3.5, "metadata": {"decisionId": "d1"}}


@pytest.mark.parametrize(
    ("read", "good", "row", "message"),
    [
        (read_pairs, GOOD, [1], "a line must be one JSON object"),
        (read_pairs, GOOD, {**GOOD, "prompt": ""}, "prompt must be a text or a list of messages"),
        (read_pairs, GOOD, {**GOOD, "prompt": []}, "prompt must be a text"),
        (read_pairs, GOOD, {**GOOD, "chosen": 3}, "chosen must be a text"),
        (read_pairs, GOOD, {**GOOD, "rejected": [{"role": "assistant", "content": None}]}, "rejected must be a text"),
        (read_pairs, GOOD, {**GOOD, "rejected": ["c"]}, "rejected must be a text"),
        (read_pairs, GOOD, {"prompt": "a", "chosen": "b"}, "rejected must be a text"),
        (read_pairs, GOOD, {**GOOD, "rejected": "b"}, "chosen and rejected are the same"),
        (read_answers, ROW, 7, "a line must be one JSON object"),
        (read_answers, ROW, {**ROW, "prompt": ""}, "prompt must be a text or a list of messages"),
        (read_answers, ROW, {**ROW, "completion": "Home"}, "completion must be a JSON object, or its text"),
        (read_answers, ROW, {**ROW, "completion": {}}, "completion must be a JSON object"),
        (read_answers, ROW, {**ROW, "reward": "much"}, "reward must be a number"),
    ],
)
def test_a_bad_line_is_named(tmp_path, read, good, row, message):
    with pytest.raises(BadFile, match=message) as error:
        read(write(tmp_path / "own.jsonl", good, row))
    assert "line 2" in str(error.value)


def test_an_empty_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(BadFile, match="no line with a pair"):
        read_pairs(write(tmp_path / "own.jsonl"))
    with pytest.raises(BadFile, match="cannot be read"):
        read_pairs(tmp_path / "nowhere.jsonl")


@pytest.mark.database
@pytest.mark.django_db
def test_prompts_that_the_version_has_learned_from_are_left_out(agent, data_dir, tmp_path):
    version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1)
    learned = TrainingSet.objects.create(
        agent=agent, method="dpo", content_hash="0" * 64, train_rows=1, heldout_rows=0, feedback_count=1, val_split=0.2
    )
    TrainingRun.objects.create(agent=agent, version=version, training_set=learned)
    learned.directory.mkdir(parents=True)
    answer = [{"role": "assistant", "content": "x"}]
    row = {"prompt": USER, "chosen": answer, "rejected": answer, "split_key": prompt_key(USER)}
    write(learned.directory / "train.jsonl", row)
    file = write(tmp_path / "own.jsonl", {**GOOD, "prompt": "Where is it?"}, GOOD)
    pairs = read_pairs(file, version, None)
    assert ([row["prompt"][0]["content"] for row in pairs.rows], pairs.learned) == (["a"], 1)


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
