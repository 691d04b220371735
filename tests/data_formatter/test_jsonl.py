import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.base.errors import BadFile, UsageError
from rl.base.records import Message
from rl.data_formatter import DPOPair, load_pairs_from_jsonl, pairs_to_jsonl, read_training_rows, training_row

PAIR = DPOPair("Which?", "this", "that", "q1", "kpi", {"pair_type": "fixture", "confidence": 0.75, "feedback": [1, 2]})

messages = st.lists(st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), content=st.text()))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
pairs_strategy = st.lists(
    st.builds(
        DPOPair,
        prompt=st.text() | messages,
        chosen=st.text(),
        rejected=st.text(),
        question_id=st.text(),
        scenario=st.none() | st.text(),
        metadata=st.none() | st.dictionaries(st.text(), values, max_size=4),
    ),
    max_size=5,
)


@given(pairs_strategy)
def test_what_is_written_is_read_back_exactly(tmp_path: Path, pairs):
    path = tmp_path / "pairs.jsonl"
    assert pairs_to_jsonl(pairs, path) == len(pairs)
    assert load_pairs_from_jsonl(path) == pairs


def test_a_line_separator_within_a_text_is_no_new_line(tmp_path: Path):
    pair = DPOPair("a\u2028b\x85c\r\nd", "x\ry", "z", "q")
    pairs_to_jsonl([pair], tmp_path / "p.jsonl")
    assert load_pairs_from_jsonl(tmp_path / "p.jsonl") == [pair]


def test_a_failure_half_way_leaves_the_file_as_it_was(tmp_path: Path):
    path = tmp_path / "p.jsonl"
    pairs_to_jsonl([PAIR], path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"pair 2 of 'q' cannot be written"):
        pairs_to_jsonl([PAIR, DPOPair("p", "half a pair \ud83d", "b", "q")], path)
    with pytest.raises(UsageError, match="pair 1"):
        pairs_to_jsonl([DPOPair("p", "a", "b", "q", metadata={"score": float("nan")})], path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match="none/p.jsonl cannot be written: No such file"):
        pairs_to_jsonl([PAIR], tmp_path / "none" / "p.jsonl")


def test_an_escaped_emoji_is_read(tmp_path: Path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(GOOD | {"chosen": "\U0001f600"}))
    assert load_pairs_from_jsonl(path)[0].chosen == "\U0001f600"


def test_blank_lines_are_skipped_and_optional_fields_may_be_missing(tmp_path: Path):
    path = tmp_path / "p.jsonl"
    path.write_text('\n{"prompt": "p", "chosen": "a", "rejected": "b", "question_id": "q"}\n  \n')
    assert load_pairs_from_jsonl(path) == [DPOPair("p", "a", "b", "q")]


GOOD = {"prompt": "p", "chosen": "a", "rejected": "b", "question_id": "q"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"prompt": "p"', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        (b'{"prompt": "\xff"}', "not valid JSON"),
        (json.dumps(GOOD | {"chosen": "cut \ud83d"}), "half of a surrogate pair"),
        ("[1]", "one JSON object"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "rejected"}), "field 'rejected' is missing"),
        (json.dumps(GOOD | {"chosen": None}), "field 'chosen' must be text, not null"),
        (json.dumps(GOOD | {"question_id": 7}), "field 'question_id' must be text, not int"),
        (json.dumps(GOOD | {"prompt": 7}), "field 'prompt' must be text or a list of messages"),
        (json.dumps(GOOD | {"prompt": ["p"]}), "field 'prompt' must hold messages"),
        (json.dumps(GOOD | {"prompt": [{"role": "user", "content": None}]}), "field 'prompt' must hold messages whose"),
        (json.dumps(GOOD | {"scenario": 1}), "field 'scenario'"),
        (json.dumps(GOOD | {"metadata": []}), "field 'metadata' must be an object"),
        (json.dumps(GOOD | {"prompts": "x"}), "unknown field 'prompts'"),
    ],
)
def test_a_broken_line_is_named_with_its_number_and_field(tmp_path: Path, line, problem):
    path = tmp_path / "p.jsonl"
    pairs_to_jsonl([PAIR, PAIR], path)
    with path.open("ab") as file:
        file.write(line if isinstance(line, bytes) else line.encode())
    with pytest.raises(BadFile, match=r"\(line 3[,)]") as caught:
        load_pairs_from_jsonl(path)
    assert problem in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(BadFile, match="none.jsonl: cannot be read: No such file"):
        load_pairs_from_jsonl(tmp_path / "none.jsonl")


def test_a_training_row_is_a_conversation():
    assert training_row(PAIR) == {
        "prompt": [{"role": "user", "content": "Which?"}],
        "chosen": [{"role": "assistant", "content": "this"}],
        "rejected": [{"role": "assistant", "content": "that"}],
        "prompt_key": "q1",
        "feedback": [1, 2],
    }


def test_a_prompt_of_messages_stays_as_it_is():
    prompt = [Message(role="system", content="Be brief."), Message(role="user", content="Hi")]
    row = training_row(DPOPair(prompt, "a", "b", "q"))
    assert row["prompt"] == prompt
    assert row["feedback"] == []


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
